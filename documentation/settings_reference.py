"""The reference of the settings: the models that a configuration is read into, as tables."""

import json
from collections.abc import Mapping
from inspect import get_annotations
from typing import Any, Final

from pydantic.fields import FieldInfo

import stacks
from documentation.errors import DocumentationError
from documentation.scenarios import scenarios
from stacks.reader import ConfigModel, is_secret, keys_of, values_of

_HEAD: Final = """\
# Settings

Written by `make docs` from the fields of `Settings` in `stacks/`; not to be edited here.

`pulumi config set KEY VALUE` writes a setting into `Pulumi.STACK.yaml`, which has a comment for every
value. A secret is set with `pulumi config set --secret KEY`, which asks for it. Every problem of a
configuration is reported at once, before anything is created; an unknown key is one of them.

What scenarios have in common comes first, then what each of them adds, or has other values or another
default for.
"""
_COLUMNS: Final = ("setting", "what it is", "values", "default")

# A model of settings that some scenarios share, or of one scenario, with the fields that it declares itself.
Tables = Mapping[type[ConfigModel], Mapping[str, FieldInfo]]


def page() -> str:
    """The page.

    Raises:
        DocumentationError: When a setting is not described.
    """
    models = {name: scenario.Settings for name, scenario in stacks.scenarios().items()}
    tables: dict[type[ConfigModel], Mapping[str, FieldInfo]] = {}
    users: dict[type[ConfigModel], list[str]] = {}
    for name, model in models.items():
        for kind in _kinds(model):
            tables[kind] = _declared(kind)
            users.setdefault(kind, []).append(name)
        silent = set(keys_of(model)) - {key for kind in _kinds(model) for key in tables[kind]}
        if silent:
            raise DocumentationError(
                f"{', '.join(sorted(silent))} of {name}: say what it is, as the `description` of its Field"
            )
    shared = [kind for kind in tables if kind not in models.values() and tables[kind]]
    text = "".join(_shared(kind, tables[kind], users[kind], len(models)) for kind in shared)
    return _HEAD + text + "".join(_scenario(name, model, tables) for name, model in models.items())


def _kinds(model: type[ConfigModel]) -> list[type[ConfigModel]]:
    """A scenario's model and those that it is built on, the most general first."""
    return [
        kind for kind in reversed(model.__mro__) if issubclass(kind, ConfigModel) and kind is not ConfigModel
    ]


def _declared(kind: type[ConfigModel]) -> dict[str, FieldInfo]:
    """The described settings that a model declares itself, and does not inherit."""
    own = get_annotations(kind)
    fields = {field.alias or name: field for name, field in kind.model_fields.items() if name in own}
    return {key: field for key, field in fields.items() if field.description}


def _shared(kind: type[ConfigModel], fields: Mapping[str, FieldInfo], users: list[str], count: int) -> str:
    whose = "" if len(users) == count else f"These are: {_links(users)}.\n\n"
    return f"\n## {_title(kind)}\n\n{whose}{_table(fields)}"


def _scenario(name: str, model: type[ConfigModel], tables: Tables) -> str:
    files = " and ".join(f"[`Pulumi.{stack}.yaml`](../Pulumi.{stack}.yaml)" for stack in scenarios()[name])
    above = [_title(kind) for kind in _kinds(model) if tables[kind] and kind is not model]
    table = f"\n{_table(tables[model])}" if tables[model] else ""
    return (
        f"\n## {name}\n\nSee [its page](stacks/{name}.md) and {files}. Its settings are also those under "
        f"{_links(above)}.\n{table}"
    )


def _title(kind: type[ConfigModel]) -> str:
    words = (kind.__doc__ or kind.__name__).removeprefix("Settings of ").splitlines()[0].rstrip(".")
    return words[:1].upper() + words[1:]


def _links(titles: list[str]) -> str:
    return ", ".join(f"[{title}](#{title.lower().replace(' ', '-')})" for title in titles)


def _table(fields: Mapping[str, FieldInfo]) -> str:
    rows = [
        [f"`{key}`", field.description or "", _values(field), _default(field)]
        for key, field in fields.items()
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in [_COLUMNS, ["---"] * len(_COLUMNS), *rows])


def _values(field: FieldInfo) -> str:
    return f"secret: {values_of(field)}" if is_secret(field) else values_of(field)


def _default(field: FieldInfo) -> str:
    if field.default_factory:
        return "depends on others"
    if field.is_required():
        return "required"
    return _written(field.default)


def _written(value: Any) -> str:
    """A default as a stack file would say it."""
    return "none" if value in (None, ()) else f"`{value if isinstance(value, str) else json.dumps(value)}`"
