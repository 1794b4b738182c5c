"""Reads what `pulumi preview --json` and `pulumi refresh --preview-only --json` print."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cloud.inputs import UNKNOWNS
from engine.command import Engine, ending
from engine.plan import changed_paths, messages, short_type
from operations.errors import OperationError
from operations.previews.changes import Change, Kind, Property, RunChange, StackPreview
from operations.previews.hourly_dollars import hourly_dollars
from operations.previews.redaction import Redaction

# Other steps change nothing, or are halves of a replacement, which has the step `replace` too.
_KINDS: Final[Mapping[str, Kind]] = {
    **{str(kind): kind for kind in Kind},
    "import": Kind.CREATE,
    "import-replacement": Kind.REPLACE,
}
_STACK: Final = "pulumi:pulumi:Stack"
# What the engine says of a protected resource that a change replaces or deletes.
_PROTECTED: Final = re.compile(
    r'(?:unable to replace resource|[Pp]review failed: resource) "(?:\S*::)?([\w.-]+)"'
)
_COMPUTED: Final = "(known after apply)"
# Types of resources with a trainer's command.
_TRAINERS: Final = (":ray.io/v1:RayJob", ":batch/v1:Job", "cloudrunv2/job:Job")
# The option of the trainers, in a command line or in a list of words.
_RUN: Final = re.compile(r'--run(?:[= ]|", ")([\w.-]+)')
# Greatest length of a value, in characters.
_LONGEST: Final = 160
# Changed lines of a long text that are shown themselves, and not counted.
_FEW: Final = 6

Tree = Mapping[str, Any]


def run(
    engine: Engine,
    stack: str,
    arguments: list[str],
    folder: Path,
    redaction: Redaction,
    environment: Mapping[str, str] | None = None,
) -> StackPreview:
    """Lets the engine preview a stack, with arguments such as `["preview", "--json"]`."""
    done = engine.call([*arguments, "--stack", stack], folder, environment or {})
    # A failed engine prints no report, or a report with the errors.
    reported = not done.code or done.stdout.startswith("{")
    preview = read(stack, done.stdout if reported else "{}", redaction)
    if done.code and not preview.failure:
        reason = done.stderr.strip() or f"pulumi {arguments[0]} {ending(done.code)}"
        return StackPreview(stack=stack, failure=redaction.text(reason))
    return preview


def read(stack: str, report: str, redaction: Redaction) -> StackPreview:
    """The preview of a stack, from the engine's standard output.

    Raises:
        OperationError: When it is no report. The message does not repeat it, because it may contain secrets.
    """
    try:
        return _read(stack, _parsed(stack, report), redaction)
    except RecursionError:
        raise OperationError(f"stack {stack}: the engine's report is nested too deeply") from None


def _parsed(stack: str, report: str) -> Tree:
    try:
        return json.loads(report)
    except ValueError:
        raise OperationError(f"stack {stack}: the engine's report is no JSON") from None


def _read(stack: str, parsed: Tree, redaction: Redaction) -> StackPreview:
    if errors := messages(parsed, "error"):
        text = redaction.text("\n".join(errors))
        return StackPreview(stack=stack, failure=text, protected=protected_in(text))
    steps = [step for step in parsed.get("steps") or () if step["op"] in _KINDS]
    changes = (_change(step, redaction) for step in steps)
    return StackPreview(
        stack=stack,
        changes=tuple(change for change in changes if change.type != _STACK),
        runs=tuple(filter(None, (_run_change(step, redaction) for step in steps))),
        warnings=tuple(map(redaction.text, messages(parsed, "warning"))),
        unchanged=(parsed.get("changeSummary") or {}).get("same", 0),
        dollars=hourly_dollars(stack, json.dumps(parsed)),
    )


def protected_in(failure: str) -> tuple[str, ...]:
    """Names of the protected resources because of which the engine refuses a preview. Empty for other "
    "causes."""
    return tuple(sorted(set(_PROTECTED.findall(failure)))) if "protect" in failure else ()


def _run_change(step: Tree, redaction: Redaction) -> RunChange | None:
    """What a step does to the run of a trainer's job; None if it does nothing to one."""
    if not step["urn"].split("::")[2].endswith(_TRAINERS):
        return None
    before, after = _run(step, "oldState"), _run(step, "newState")
    # An update in place trains nothing, unless another command does.
    if not before or (before == after and _KINDS[step["op"]] is Kind.UPDATE):
        return None
    return RunChange(before=redaction.text(before), after=redaction.text(after))


def _run(step: Tree, state: str) -> str:
    """Name of the run in a trainer's command, empty if the resource has no such command."""
    command = _RUN.search(json.dumps((step.get(state) or {}).get("inputs") or {}))
    return command[1] if command else ""


def _change(step: Tree, redaction: Redaction) -> Change:
    kind = _KINDS[step["op"]]
    types, name = step["urn"].split("::", 3)[2:]
    old = _state(step.get("oldState") or {}, redaction)
    new = _state(step.get("newState") or {}, redaction)
    properties: Iterator[Property] = iter(())
    if kind is Kind.CREATE:
        stated = (key for key in sorted(new["inputs"]) if not key.startswith("__"))
        properties = (Property(path=key, old="", new=_described(new["inputs"][key])) for key in stated)
    elif kind is not Kind.DELETE:
        properties = _changed(step, old, new)
    return Change(
        kind=kind,
        type=redaction.text(short_type(types.rpartition("$")[2])),
        name=redaction.text(name),
        reason=_reason(step) if kind is Kind.REPLACE else "",
        properties=tuple(replace(prop, path=redaction.text(prop.path)) for prop in properties),
    )


def _state(state: Tree, redaction: Redaction) -> dict[str, Any]:
    """Inputs and outputs of a resource, without secrets."""
    return {part: redaction.tree(state.get(part) or {}) for part in ("inputs", "outputs")}


def _reason(step: Tree) -> str:
    """Why the engine replaces a resource, if no property of the resource is the reason."""
    if "provider" in (step.get("replaceReasons") or ()):
        return "its provider is replaced, as the cluster that it lives in is"
    return "" if step.get("replaceReasons") else "something that it depends on is replaced"


def _changed(step: Tree, old: Tree, new: Tree) -> Iterator[Property]:
    """The properties that change, from the provider's diff or else from the inputs."""
    detailed: Mapping[str, Tree] = step.get("detailedDiff") or {}
    for path in sorted(detailed):
        part = "inputs" if detailed[path].get("inputDiff") else "outputs"
        forces = str(detailed[path].get("kind", "")).endswith("-replace")
        yield _property(path, old[part], new[part], forces)
    if detailed:
        return
    forcing = step.get("replaceReasons") or ()
    reasons = {*forcing, *(step.get("diffReasons") or ())}
    for path in changed_paths(old["inputs"], new["inputs"]):
        top = path.split(".")[0].split("[")[0]
        if not reasons or top in reasons:
            yield _property(path, old["inputs"], new["inputs"], top in forcing)


def _property(path: str, old_tree: Tree, new_tree: Tree, forces: bool) -> Property:
    """A property with both values in a line each. Long texts are cut to their difference."""
    old, new = _at(old_tree, path), _at(new_tree, path)
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        before, after = old.splitlines(), new.splitlines()
        lines = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        gone, added = ([line[2:].strip() for line in lines if line[0] == sign] for sign in "-+")
        if len(lines) <= _FEW:
            shown = (_described("; ".join(part) or None) for part in (gone, added))
            return Property(path=path, old=next(shown), new=next(shown), forces=forces)
        extent = f"{len(after)} lines: {len(added)} new, {len(gone)} gone"
        return Property(path=path, old=f"{len(before)} lines", new=extent, forces=forces)
    return Property(path=path, old=_described(old), new=_described(new), forces=forces)


def _described(value: Any) -> str:
    """A value in one line, empty for none."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    for unknown in UNKNOWNS:
        text = text.replace(unknown, _COMPUTED)
    lines = len(text.splitlines())
    if lines > 1:
        return f"{lines} lines"
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…") or '""'


def _at(node: Any, path: str) -> Any:
    """The value at a path of a diff, None when there is none.

    Some providers quote keys (`labels["a.b/c"]`), others do not (`labels.a.b/c`).
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
