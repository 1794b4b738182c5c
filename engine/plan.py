"""The plan of a preview: every resource with its inputs and its dependencies."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from engine.recorder import UNCHANGED
from engine.secrets import scrubbed

# The annotation that pulumi-kubernetes adds to an object with an automatic name.
AUTONAMED: Final = "pulumi.com/autonamed"
# The options of a resource in a state.
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
        urn: URN.
        parent: URN of the parent, empty for the stack itself.
        op: Operation, such as `create`, `update`, `replace`, `delete` or `same`.
        inputs: Inputs. Secrets are the text `[secret]`.
        dependencies: URNs of the resources that it waits for.
        options: Resource options, by the engine's names.
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
        resources: The planned resources in the engine's order. The first plan of a stack has all of them.
        changes: How many resources would be created, updated, left the same, and so on.
        report: The output of `pulumi preview --json`.
        warnings: The program's warnings.
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
    """The plan of a preview, from the output of `pulumi preview --json`."""
    parsed = json.loads(report)
    return Plan(
        resources=tuple(
            _planned(step, step.get("newState") or step.get("oldState") or {}) for step in _steps(parsed)
        ),
        changes=parsed.get("changeSummary", {}),
        report=report,
        warnings=messages(parsed, "warning"),
    )


def sides(report: str) -> tuple[tuple[Planned, ...], tuple[Planned, ...]]:
    """The resources before a change, and those after it, from the output of `pulumi preview --json`."""
    steps = _steps(json.loads(report))
    before, after = (
        tuple(_planned(step, step[state]) for step in steps if step.get(state))
        for state in ("oldState", "newState")
    )
    return before, after


def _steps(parsed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The steps. A replacement has three, of which the one called `replace` is enough."""
    parts = ("create-replacement", "delete-replaced")
    return [step for step in parsed["steps"] if not step["op"].endswith(parts)]


def messages(report: Mapping[str, Any], severity: str) -> tuple[str, ...]:
    """The messages of a severity, such as `warning`, in a preview's report. Equal ones count once."""
    diagnostics = report.get("diagnostics") or ()
    texts = [entry["message"] for entry in diagnostics if entry["severity"] == severity]
    return tuple(dict.fromkeys(text.removeprefix("warning: ").strip() for text in texts))


def _planned(step: Mapping[str, Any], state: Mapping[str, Any]) -> Planned:
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
    """The inputs without automatic names, which differ from plan to plan."""
    automatic = inputs.pop("__defaults", ())
    stated = {key: value for key, value in inputs.items() if key not in automatic}
    metadata = stated.get("metadata")
    if isinstance(metadata, Mapping) and AUTONAMED in (metadata.get("annotations") or {}):
        annotations = {key: text for key, text in metadata["annotations"].items() if key != AUTONAMED}
        rest = {key: value for key, value in metadata.items() if key not in ("name", "annotations")}
        stated["metadata"] = {**rest, **({"annotations": annotations} if annotations else {})}
    return stated


def dependencies(state: Mapping[str, Any]) -> tuple[str, ...]:
    """URNs of the resources that a resource of a plan or a state waits for.

    They are declared, follow from a property, or are its provider.
    """
    urns: dict[str, None] = dict.fromkeys(state.get("dependencies") or ())
    for of_property in (state.get("propertyDependencies") or {}).values():
        urns.update(dict.fromkeys(of_property or ()))
    provider = (state.get("provider") or "").rpartition("::")[0]
    if provider and "::default" not in provider:
        urns[provider] = None
    return tuple(urns)


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
    """`gcp:storage:Bucket` for `gcp:storage/bucket:Bucket`. Types of other packages do not change."""
    package, module, name = type_token.split(":")
    return f"{package}:{module.split('/')[0]}:{name}" if package == "gcp" else type_token
