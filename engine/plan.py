"""The plan of a preview: every resource with its inputs and what it waits for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from engine.recorder import UNCHANGED
from engine.secrets import scrubbed

# The annotation by which pulumi-kubernetes knows an automatic name.
AUTONAMED: Final = "pulumi.com/autonamed"
# What a state says of a resource besides its inputs and what it waits for.
_OPTIONS: Final = (
    *("provider", "protect", "deletedWith", "replaceOnChanges"),
    *("ignoreChanges", "retainOnDelete", "customTimeouts", "resourceHooks"),
)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One resource of a plan.

    Args:
        type: Type token.
        name: Logical name.
        urn: URN; `parent` and `dependencies` are others'.
        parent: Empty for the stack itself.
        op: What would happen to it: `create`, `update`, `replace`, `delete`, `same`, ...
        inputs: Its inputs; secrets are the text `[secret]`.
        dependencies: URNs that it waits for.
        options: Its resource options, by the names that the engine has for them.
    """

    type: str
    name: str
    urn: str
    parent: str
    op: str
    inputs: dict[str, Any]
    dependencies: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan.

    Args:
        resources: What would change, in the engine's order; in the first plan of a stack everything.
        changes: How many resources would be created, updated, stay the same, ...
        report: What `pulumi preview --json` prints.
        warnings: What the program warns of.
    """

    resources: tuple[Planned, ...]
    changes: dict[str, int]
    report: str = field(default="", repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> int:
        """Number of resources that would not stay the same."""
        return sum(count for operation, count in self.changes.items() if operation not in UNCHANGED)

    def as_json(self) -> str:
        """The plan as a JSON text, readable and comparable."""
        resources = [asdict(resource) for resource in self.resources]
        return json.dumps({"changes": self.changes, "resources": resources}, indent=2, sort_keys=True) + "\n"


def read(report: str) -> Plan:
    """The plan of a preview, from what `pulumi preview --json` prints."""
    parsed = json.loads(report)
    steps: list[dict[str, Any]] = parsed["steps"]
    shown = [step for step in steps if not step["op"].endswith(("create-replacement", "delete-replaced"))]
    changes, warnings = parsed.get("changeSummary", {}), told(parsed, "warning")
    return Plan(resources=tuple(map(_planned, shown)), changes=changes, report=report, warnings=warnings)


def told(report: Mapping[str, Any], severity: str) -> tuple[str, ...]:
    """What a preview's report says with a severity, such as `warning`, each text once."""
    said = (each for each in report.get("diagnostics") or () if each["severity"] == severity)
    return tuple(dict.fromkeys(each["message"].removeprefix("warning: ").strip() for each in said))


def _planned(step: Mapping[str, Any]) -> Planned:
    state = step.get("newState") or step.get("oldState") or {}
    return Planned(
        type=state["type"],
        name=step["urn"].split("::")[-1],
        urn=step["urn"],
        parent=state.get("parent", ""),
        op=step["op"],
        inputs=_stated(scrubbed(state.get("inputs", {}))),
        dependencies=dependencies(state),
        options={key: state[key] for key in _OPTIONS if state.get(key)},
    )


def _stated(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs as the program stated them: without automatic names, which differ from plan to plan."""
    automatic = inputs.pop("__defaults", ())
    stated = {key: value for key, value in inputs.items() if key not in automatic}
    metadata = stated.get("metadata")
    if isinstance(metadata, Mapping) and AUTONAMED in (metadata.get("annotations") or {}):
        annotations = {key: text for key, text in metadata["annotations"].items() if key != AUTONAMED}
        rest = {key: value for key, value in metadata.items() if key not in ("name", "annotations")}
        stated["metadata"] = {**rest, **({"annotations": annotations} if annotations else {})}
    return stated


def dependencies(state: Mapping[str, Any]) -> tuple[str, ...]:
    """What a resource of a plan or a state waits for: declared, by property, and its provider."""
    found: dict[str, None] = dict.fromkeys(state.get("dependencies") or ())
    for urns in (state.get("propertyDependencies") or {}).values():
        found.update(dict.fromkeys(urns or ()))
    provider = (state.get("provider") or "").rpartition("::")[0]
    if provider and "::default" not in provider:
        found[provider] = None
    return tuple(found)


def changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two trees of values differ, such as `nodeConfig.taints[0].key`, with both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            if not key.startswith("__"):
                yield from changes(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            yield from changes(old_item, new_item, f"{path}[{index}]")
    elif old != new:
        yield path, old, new


def changed_paths(old: Any, new: Any) -> Iterator[str]:
    """The paths at which two trees of values differ."""
    return (path for path, _, _ in changes(old, new))


def short_type(type_token: str) -> str:
    """`gcp:storage:Bucket` for `gcp:storage/bucket:Bucket`; other types stay as they are."""
    package, module, name = type_token.split(":")
    return f"{package}:{module.split('/')[0]}:{name}" if package == "gcp" else type_token
