"""What `pulumi preview --json` and `pulumi refresh --preview-only --json` print."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from engine.command import Engine
from engine.plan import changed_paths
from operations.previews.changes import Change, Kind, Property, StackPreview, ordered
from operations.previews.redaction import Redaction
from operations.previews.values import change_of, described

# Other steps change nothing, or are the halves of a replacement, which `replace` stands for.
_KINDS: Final[Mapping[str, Kind]] = {
    "create": Kind.CREATE,
    "import": Kind.CREATE,
    "update": Kind.UPDATE,
    "replace": Kind.REPLACE,
    "import-replacement": Kind.REPLACE,
    "delete": Kind.DELETE,
}
_STACK: Final = "pulumi:pulumi:Stack"
_NOTHING_MORE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class _Step:
    """A step of the engine, free of secrets."""

    raw: Mapping[str, Any]
    old: Mapping[str, Any]
    new: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str((self.new or self.old)["type"])

    def inputs(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return self.old.get("inputs") or {}, self.new.get("inputs") or {}

    def outputs(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return self.old.get("outputs") or {}, self.new.get("outputs") or {}


def read(stack: str, report: str, redaction: Redaction) -> StackPreview:
    """The preview of a stack.

    Args:
        stack: Name of the stack.
        report: The engine's standard output.
        redaction: Takes out what must not be seen.

    Raises:
        ValueError: When it is not such a report; the report is not repeated, it may hold anything.
    """
    try:
        parsed = json.loads(report)
        steps = [_step(each, redaction) for each in parsed.get("steps") or ()]
        unchanged = int((parsed.get("changeSummary") or {}).get("same", 0))
        errors = [each["message"] for each in parsed.get("diagnostics") or () if each["severity"] == "error"]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{stack}: this is not what `pulumi preview --json` prints") from None
    if errors:
        return StackPreview(stack=stack, failure=redaction.text("\n".join(dict.fromkeys(errors)).strip()))
    changes = [
        _redacted(_change(step), redaction)
        for step in steps
        if step.raw["op"] in _KINDS and step.type != _STACK
    ]
    return StackPreview(stack=stack, changes=ordered(changes), unchanged=unchanged)


def run(
    engine: Engine,
    stack: str,
    arguments: list[str],
    folder: Path,
    redaction: Redaction,
    environment: Mapping[str, str] = _NOTHING_MORE,
) -> StackPreview:
    """Lets the engine preview a stack.

    Args:
        engine: The engine.
        stack: Name of the stack.
        arguments: Of the engine, such as `["preview", "--json"]`.
        folder: Where the program is.
        redaction: Takes out what must not be seen.
        environment: Variables for the engine on top of this process's own.
    """
    done = engine.call([*arguments, "--stack", stack], folder, environment)
    try:
        found = read(stack, done.stdout, redaction)
    except ValueError:
        if not done.code:
            raise
        found = StackPreview(stack=stack)
    if done.code and not found.failure:
        said = done.stderr.strip() or f"pulumi {arguments[0]} ended with status {done.code}"
        return StackPreview(stack=stack, failure=redaction.text(said))
    return found


def _step(raw: Mapping[str, Any], redaction: Redaction) -> _Step:
    states = [raw.get(which) or {} for which in ("oldState", "newState")]
    old, new = (
        {key: redaction.tree(state[key]) if key in ("inputs", "outputs") else state[key] for key in state}
        for state in states
    )
    _ = raw["urn"], (new or old)["type"]
    return _Step(raw=raw, old=old, new=new)


def _change(step: _Step) -> Change:
    kind = _KINDS[step.raw["op"]]
    return Change(
        kind=kind,
        type=step.type,
        name=str(step.raw["urn"]).split("::")[-1],
        reason=_reason(step) if kind is Kind.REPLACE else "",
        properties=tuple(_stated(step) if kind is Kind.CREATE else _changed(step)),
    )


def _redacted(change: Change, redaction: Redaction) -> Change:
    """The change without secrets in names and paths; its values have none since `_step`."""
    return replace(
        change,
        name=redaction.text(change.name),
        type=redaction.text(change.type),
        properties=tuple(replace(each, path=redaction.text(each.path)) for each in change.properties),
    )


def _reason(step: _Step) -> str:
    """Why the engine, and no property of the resource, replaces it."""
    if "provider" in (step.raw.get("replaceReasons") or ()):
        return "its provider is replaced, as the cluster that it lives in is"
    if not step.raw.get("replaceReasons"):
        return "something that it depends on is replaced"
    return ""


def _stated(step: _Step) -> Iterator[Property]:
    """Everything that the program says about a new resource."""
    _, new = step.inputs()
    for key in sorted(new):
        if not key.startswith("__"):
            yield Property(path=key, old="", new=described(new[key]))


def _changed(step: _Step) -> Iterator[Property]:
    if not step.new:
        return
    forcing = [str(key) for key in step.raw.get("replaceReasons") or ()]
    detailed: Mapping[str, Mapping[str, Any]] = step.raw.get("detailedDiff") or {}
    if detailed:
        for path in sorted(detailed):
            trees = step.inputs() if detailed[path].get("inputDiff") else step.outputs()
            forces = str(detailed[path].get("kind", "")).endswith("-replace")
            yield _property(path, trees, forces)
        return
    reasons = {str(key) for key in step.raw.get("diffReasons") or ()} | set(forcing)
    for path in changed_paths(*step.inputs()):
        top = path.split(".")[0].split("[")[0]
        if not reasons or top in reasons:
            yield _property(path, step.inputs(), top in forcing)


def _property(path: str, trees: tuple[Mapping[str, Any], Mapping[str, Any]], forces: bool) -> Property:
    old, new = change_of(*(_at(tree, path) for tree in trees))
    return Property(path=path, old=old, new=new, forces=forces)


def _at(node: Any, path: str) -> Any:
    """The value at a path of a diff, None when there is none.

    Keys come quoted (`labels["a.b/c"]`) or, from some providers, as they are (`labels.a.b/c`).
    """
    if not path:
        return node
    if isinstance(node, Mapping):
        for key in sorted(node, key=len, reverse=True):
            for written in (json.dumps([key]), key):
                rest = path.removeprefix(written)
                if rest != path and rest[:1] in ("", ".", "["):
                    return _at(node[key], rest.removeprefix("."))
        return None
    if isinstance(node, list):
        index, closed, rest = path.removeprefix("[").partition("]")
        if closed and index.isdigit() and int(index) < len(node):
            return _at(node[int(index)], rest.removeprefix("."))
    return None
