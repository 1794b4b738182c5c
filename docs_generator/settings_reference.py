"""The reference of the settings, as tables, from the models that read a configuration."""

import json
from inspect import get_annotations

from pydantic.fields import FieldInfo

import stacks
from docs_generator.parts import DocumentationError, scenarios, table
from stacks.settings.reader import ConfigModel, is_secret, keys_of, values_of


def page() -> str:
    """The tables of the settings of all scenarios.

    Raises:
        DocumentationError: If a setting has no description.
    """
    models = {name: scenario.Settings for name, scenario in stacks.scenario_modules().items()}
    users: dict[type[ConfigModel], list[str]] = {}
    for name, model in models.items():
        for kind in _kinds(model):
            users.setdefault(kind, []).append(name)
        if silent := [key for key, field in keys_of(model).items() if not field.description]:
            raise DocumentationError(f"{', '.join(silent)} of {name}: add a `description` to its Field")
    text = ""
    for kind, names in users.items():
        if kind not in models.values() and _declared(kind):
            whose = "" if len(names) == len(models) else f"The scenarios are {_links(names)}.\n\n"
            text += f"\n## {_title(kind)}\n\n{whose}{_table(kind)}"
    return text + "".join(_scenario(name, model) for name, model in models.items())


def _kinds(model: type[ConfigModel]) -> list[type[ConfigModel]]:
    """A scenario's model and its base models, from general to specific."""
    return [
        kind for kind in reversed(model.__mro__) if issubclass(kind, ConfigModel) and kind is not ConfigModel
    ]


def _declared(kind: type[ConfigModel]) -> dict[str, FieldInfo]:
    """The described settings that a model declares itself and does not inherit."""
    own = get_annotations(kind)
    return {
        field.alias or name: field
        for name, field in kind.model_fields.items()
        if name in own and field.description
    }


def _scenario(name: str, model: type[ConfigModel]) -> str:
    files = " and ".join(f"[`Pulumi.{stack}.yaml`](../Pulumi.{stack}.yaml)" for stack in scenarios()[name])
    above = [_title(kind) for kind in _kinds(model) if _declared(kind) and kind is not model]
    shared = "".join(f"- {_links([title])}\n" for title in above)
    own = f"\nIts own settings:\n\n{_table(model)}" if _declared(model) else ""
    links = f"See [its page](stacks/{name}.md) and {files}. It has the settings of these sections:"
    return f"\n## {name}\n\n{links}\n\n{shared}{own}"


def _title(kind: type[ConfigModel]) -> str:
    words = (kind.__doc__ or kind.__name__).removeprefix("Settings of ").splitlines()[0].rstrip(".")
    return words[:1].upper() + words[1:]


def _links(titles: list[str]) -> str:
    return ", ".join(f"[{title}](#{title.lower().replace(' ', '-')})" for title in titles)


def _table(kind: type[ConfigModel]) -> str:
    rows = [
        [
            f"`{key}`",
            str(field.description),
            f"secret: {values_of(field)}" if is_secret(field) else values_of(field),
            _default(field),
        ]
        for key, field in _declared(kind).items()
    ]
    return table("setting", "what it is", "values", "default", rows=rows)


def _default(field: FieldInfo) -> str:
    """The default in the spelling of a stack file."""
    if field.default_factory:
        return "depends on other settings"
    if field.is_required():
        return "required"
    if field.default in (None, (), {}):
        return "none"
    return f"`{field.default if isinstance(field.default, str) else json.dumps(field.default)}`"
