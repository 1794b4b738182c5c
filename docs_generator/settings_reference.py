"""The reference of the settings, a table for every scenario, from the models that read a configuration."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import yaml
from pydantic.fields import FieldInfo

import stacks
from cloud.services.artifactregistry import REPOSITORY
from cloud.services.cloudrun import SERVICE
from cloud.services.compute import NETWORK, SUBNETWORK
from cloud.services.container import CLUSTER, NODE_POOL
from cloud.services.storage import BUCKET
from docs_generator.parts import DocumentationError, scenarios, table
from engine.project import project_name, stack_file
from stacks.settings.model import (
    ConfigModel,
    Place,
    hint_of,
    is_secret,
    places_of,
    topics_of,
    values_of,
)

# What a change of each key replaces, by scenario. `python -m tests.replacements` writes it.
REPLACEMENTS: Final = Path(__file__).with_name("replacements.yaml")
# Types that a person wants to know of, in the order of alarm. What lives in a cluster goes with it.
_NOUNS: Final = {
    BUCKET.type: "the bucket",
    CLUSTER.type: "the cluster and all in it",
    NODE_POOL.type: "node pools",
    NETWORK.type: "the network",
    SUBNETWORK.type: "the subnet",
    REPOSITORY.type: "the repositories of images",
    SERVICE.type: "the service",
}
# Types of what trains or serves in a cluster.
_IN_A_CLUSTER: Final = {
    "kubernetes:batch/v1:Job": "the job",
    "kubernetes:ray.io/v1:RayJob": "the job",
    "kubernetes:ray.io/v1:RayCluster": "the Ray cluster",
    "kubernetes:apps/v1:Deployment": "the servers",
}
_COLUMNS = ("setting", "what it is", "values", "default")


def page() -> str:
    """A table for every scenario, then the topics that several scenarios share.

    Raises:
        DocumentationError: If a setting has no description.
    """
    models = {name: scenario.Settings for name, scenario in stacks.scenario_modules().items()}
    for name, model in models.items():
        if silent := [key for key, place in places_of(model).items() if not place.field.description]:
            raise DocumentationError(f"{', '.join(silent)} of {name}: add a `description` to its Field")
    users = Counter(_title(kind) for model in models.values() for kind in topics_of(model).values())
    shared = {title for title, count in users.items() if count > 1}
    text = "".join(_scenario(name, model, shared) for name, model in models.items())
    explained: dict[str, dict[str, FieldInfo]] = {}
    for model in models.values():
        for kind in topics_of(model).values():
            if _title(kind) in shared:
                fields = {field.alias or key: field for key, field in kind.model_fields.items()}
                explained[_title(kind)] = fields | explained.get(_title(kind), {})
    return (
        text
        + _replacements()
        + "".join(
            f"\n## {title}\n\n{_table([_row(key, field, whole=True) for key, field in fields.items()])}"
            for title, fields in sorted(explained.items())
        )
    )


def _replacements() -> str:
    """What a change of each key replaces on a stack that is up. Keys that replace nothing have no row."""
    by_key: dict[str, dict[str, list[str]]] = {}
    for scenario, keys in sorted(yaml.safe_load(REPLACEMENTS.read_text()).items()):
        for key, types in keys.items():
            if what := replaced(types):
                by_key.setdefault(key, {}).setdefault(what, []).append(scenario)
    rows = [
        [f"`{key}`", what, ", ".join(f"`{scenario}`" for scenario in names)]
        for key, by_text in sorted(by_key.items())
        for what, names in by_text.items()
    ]
    return (
        "\n## What a change replaces\n\nEach setting was changed on a stack that is up, in a rehearsal. A "
        "change of a key that is not in this table replaces none of these things. `pulumi preview` shows "
        "your own change.\n\n" + table("setting", "a change replaces or deletes", "in", rows=rows)
    )


def replaced(types: Iterable[str]) -> str:
    """What a person loses with these types of resources, in words. Empty if it is nothing to know of."""
    without_pools = CLUSTER.type in types
    nouns = [
        noun
        for type_token, noun in _NOUNS.items()
        if type_token in types and not (without_pools and type_token == NODE_POOL.type)
    ]
    if CLUSTER.type not in types:
        nouns += [noun for type_token, noun in _IN_A_CLUSTER.items() if type_token in types]
    return ", ".join(dict.fromkeys(nouns))


def _scenario(name: str, model: type[ConfigModel], shared: set[str]) -> str:
    files = scenarios()[name]
    named = " and ".join(f"[`Pulumi.{stack}.yaml`](../Pulumi.{stack}.yaml)" for stack in files)
    rows = [row for places in _groups(files, model) for row in _group(model, places, shared)]
    return f"\n## {name}\n\nSee [its page](stacks/{name}.md) and {named}.\n\n{_table(rows)}"


def _groups(files: list[str], model: type[ConfigModel]) -> Iterator[dict[str, Place]]:
    """The keys that people set first, and then the others, topic by topic."""
    places = places_of(model)
    written = {key.removeprefix(f"{project_name()}:") for stack in files for key in stack_file(stack)}
    first = {key for key, place in places.items() if place.field.is_required() or key in written}
    yield {key: place for key, place in places.items() if key in first}
    for topic in ("", *topics_of(model)):
        yield {key: place for key, place in places.items() if key not in first and place.topic == topic}


def _group(model: type[ConfigModel], places: dict[str, Place], shared: set[str]) -> Iterator[list[str]]:
    topics = topics_of(model)
    names = {place.topic for place in places.values()}
    if len(names) == 1 and (name := names.pop()):
        title = _title(topics[name])
        link = f"[{title}](#{title.lower().replace(' ', '-')})" if title in shared else title
        yield [f"**{link}**", "", "", ""]
    for key, place in places.items():
        whole = not place.topic or _title(topics[place.topic]) not in shared
        yield _row(key, place.field, whole=whole)


def _table(rows: list[list[str]]) -> str:
    return table(*_COLUMNS, rows=rows)


def _row(key: str, field: FieldInfo, *, whole: bool) -> list[str]:
    """The row of a key, with the whole description or its first sentence."""
    description = str(field.description)
    values = f"secret: {values_of(field)}" if is_secret(field) else values_of(field)
    text = description if whole else f"{description.partition('. ')[0].rstrip('.')}."
    return [f"`{key}`", text, values, _default(field)]


def _title(kind: type[ConfigModel]) -> str:
    return (kind.__doc__ or kind.__name__).splitlines()[0].rstrip(".")


def _default(field: FieldInfo) -> str:
    """The default in the spelling of a stack file."""
    if hint := hint_of(field).default:
        return hint
    if field.is_required():
        return "required"
    if field.default in (None, (), {}):
        return "none"
    value = field.default
    if isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
