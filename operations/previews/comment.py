"""The text of the comment. Losses come first, the order is fixed, and it is never too long."""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from engine.text import visible
from operations.previews.changes import (
    Change,
    HourlyDollars,
    Kind,
    Previews,
    Property,
    RunChange,
    StackPreview,
)
from operations.previews.redaction import Redaction

# The first line of our comments. By it the next preview recognizes the comment to replace.
MARKER: Final = "<!-- llm-stacks: what this merge request changes -->"

_LOSSES: Final = (Kind.DELETE, Kind.REPLACE)
# Types that hold work or take long to get back. The warning names such resources.
_PRECIOUS: Final = (":Bucket", ":Cluster", ":NodePool", ":PersistentVolumeClaim", ":CryptoKey", ":Repository")
_BUCKET: Final = ":Bucket"
_CHART: Final = ":Release"
# A list of this many resources is folded, unless something in it is lost.
_FOLDED: Final = 6
_ENDING: Final = "\n\n*The rest is cut off: a comment is not that long. The job's artifact has all of it.*\n"


class _Detail(IntEnum):
    """How detailed the comment is.

    Each level has what the levels before it have. A long comment gets a lower one.
    """

    LOSSES = 0
    CREATED = 1  # the names of created resources
    VALUES = 2  # from what to what the properties of a resource change that stays
    STATED = 3  # what created resources are like


_FORKED: Final = (
    "> [!NOTE]\n> This merge request comes from a fork, whose own code made this preview and can make it say "
    "anything. Only the diff shows what it changes."
)


def render(
    previews: Previews, limit: int, title: str = "What this merge request changes", *, of_fork: bool = False
) -> str:
    """The comment in Markdown, without secrets. `limit` is its greatest length in characters."""
    head, redaction, text = [f"## {title}", *[_FORKED] * of_fork], Redaction(), ""
    for detail in (_Detail.STATED, _Detail.VALUES, _Detail.CREATED, _Detail.LOSSES):
        text = redaction.text(_comment(previews, head, detail))
        if len(text) <= limit:
            return text
    return _cut(text, limit)


def code(text: str) -> str:
    """A text that Markdown shows unchanged. A comment must not be able to mention people."""
    flat = visible(" ".join(text.split()))
    fence = "`" * (_longest_run(flat) + 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}" if flat else ""


def _comment(previews: Previews, head: Sequence[str], detail: _Detail) -> str:
    parts = [MARKER, *head, _caution(previews), _intro(previews)]
    parts += [_stack(preview, detail) for preview in previews.stacks if not _is_same(preview)]
    parts += _same([preview for preview in previews.stacks if _is_same(preview)])
    if previews.stacks and previews.untouched:
        names = ", ".join(map(code, previews.untouched))
        parts.append(f"Nothing that these stacks are made of has changed: {names}.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _is_same(preview: StackPreview) -> bool:
    return not (preview.changes or preview.failure or preview.protected)


def _same(previews: Sequence[StackPreview]) -> Iterator[str]:
    """A line for all stacks that nothing changes, and for what they are compared with."""
    for against in sorted({preview.against for preview in previews}):
        names = ", ".join(code(preview.stack) for preview in previews if preview.against == against)
        compared = f", against {code(against)}" if against else ""
        yield f"Nothing changes: {names}{compared}."


def _caution(previews: Previews) -> str:
    """The warnings and losses, before everything else."""
    lines = [
        f"> **{code(preview.stack)}: the preview failed.**"
        for preview in previews.stacks
        if preview.failure and not preview.protected
    ]
    lines += [f"> {_refusal(preview)}" for preview in previews.stacks if preview.protected]
    lines += [
        f"> **{code(stack)} is removed.** What it created stays: destroy it first, from the target branch."
        for stack in previews.removed
    ]
    for preview in previews.stacks:
        lines += [f"> **{code(preview.stack)} warns:** {code(warning)}" for warning in preview.warnings]
        lines += [f"> **{code(preview.stack)}:** {text}" for text in _halves(preview)]
        lines += [
            f"> **{code(preview.stack)}: {_ended(run)}**{_kept(run, preview)}"
            for run in preview.runs
            if not run.goes_on
        ]
        lost = [change for kind in _LOSSES for change in preview.of(kind)]
        if lost and not preview.protected:
            counts = " and ".join(_count(kind, preview.of(kind)) for kind in _LOSSES if preview.of(kind))
            precious = ", ".join(code(change.name) for change in lost if change.type.endswith(_PRECIOUS))
            held = f" What these hold is lost: {precious}." if precious else ""
            if precious and not _loses_bucket(preview):
                held += " Checkpoints are in the bucket, which stays."
            lines.append(f"> **{code(preview.stack)}: {counts}.**{held}")
    return "\n".join(("> [!CAUTION]", ">\n".join(f"{line}\n" for line in lines).rstrip())) if lines else ""


def _refusal(preview: StackPreview) -> str:
    """Why `up` refuses a change that would replace or delete a protected bucket, and both ways on."""
    buckets = ", ".join(map(code, preview.protected))
    others = [
        change.name
        for kind in _LOSSES
        for change in preview.of(kind)
        if change.type.endswith(_PRECIOUS) and change.name not in preview.protected
    ]
    rest = f" With it would go: {', '.join(map(code, others))}." if others else ""
    stack = preview.stack
    second = code(f"make new-stack NAME={stack}-2 FROM={stack} && pulumi stack init {stack}-2")
    keep = code(f"git checkout TARGET -- Pulumi.{stack}.yaml")
    return (
        f"**{code(stack)}: `up` refuses this change, because it would delete {buckets} with all runs and "
        f"checkpoints.**{rest} For another region, project or bucket make a second stack beside this one: "
        f"{second}. Take the change back here: {keep}, with the target branch as TARGET."
    )


def _loses_bucket(preview: StackPreview) -> bool:
    """Whether checkpoints go."""
    return any(change.type.endswith(_BUCKET) for kind in _LOSSES for change in preview.of(kind))


def _kept(run: RunChange, preview: StackPreview) -> str:
    """What stays of a run that ends, and how to go on with it."""
    if run.finished or not run.after or _loses_bucket(preview):
        return ""
    command = code(f"pulumi config set run {run.before} --stack {preview.stack}")
    of_recipe = any(
        prop.path.startswith(("recipe", "slices", "topology", "workers")) for prop in preview.settings
    )
    condition = " A run takes no other values of its recipe: let it end first." if of_recipe else ""
    return f" Its checkpoints stay in the bucket. To go on with it, before `up`: {command}.{condition}"


def _halves(preview: StackPreview) -> Iterator[str]:
    """Charts whose version changes while the image of their program stays, which a digest names."""
    for change in preview.of(Kind.UPDATE) + preview.of(Kind.REPLACE):
        versions = [prop for prop in change.properties if prop.path == "version"]
        images = [prop for prop in change.properties if "image" in prop.path]
        if change.type.endswith(_CHART) and versions and not images:
            versions_text = f"{code(versions[0].old)} → {code(versions[0].new)}"
            yield (
                f"the chart {code(change.name)} goes {versions_text}, and its program's image stays. Both "
                "must be of one release: change the image's digest in `stacks/pins.py` too."
            )


def _ended(run: RunChange) -> str:
    ended = f"the training of run {code(run.before)} ends {_place(run) or 'where it is'}"
    if run.finished:
        ended = f"run {code(run.before)} is finished"
    if not run.after:
        return f"{ended}."
    verb = "goes on" if run.after_step else "starts"
    start = "" if run.after_step is None else f" from step {run.after_step}"
    return f"{ended}, and run {code(run.after)} {verb}{start}."


def _going_on(run: RunChange) -> str:
    if run.finished:
        return f"Run {code(run.before)} is finished and is not trained again. Only its job is new."
    place = f", now {_place(run)}," if _place(run) else ""
    return f"Run {code(run.before)}{place} goes on from its newest checkpoint. Only its job is new."


def _place(run: RunChange) -> str:
    """Such as `at step 2 of 40`, empty if it is not known."""
    if run.before_step is None:
        return ""
    return f"at step {run.before_step}" + (f" of {run.steps}" if run.steps else "")


def _count(kind: Kind, changes: Sequence[Change]) -> str:
    """Such as `2 deleted`."""
    return f"{len(changes)} {kind}d"


def _intro(previews: Previews) -> str:
    if not previews.stacks:
        return "No stack: nothing that a stack is made of has changed."
    commit = f"Commit {code(previews.commit[:12])}."
    rows = [_row(preview) for preview in previews.stacks if not _is_same(preview)]
    if not rows:
        return commit
    head = "| stack | deleted | replaced | updated | created | unchanged |\n|---|--:|--:|--:|--:|--:|"
    return "\n".join((f"{commit}\n", head, *rows))


def _row(preview: StackPreview) -> str:
    # A bar ends a table's cell even inside code.
    name = code(preview.stack.replace("|", " "))
    if preview.failure:
        return f"| {name} | failed | | | | |"
    counts = []
    for kind in Kind:
        count = len(preview.of(kind))
        counts.append(f"**{count}**" if count and kind in _LOSSES else str(count))
    return f"| {name} | {' | '.join(counts)} | {preview.unchanged} |"


def _stack(preview: StackPreview, detail: _Detail) -> str:
    head = f"### {code(preview.stack)}"
    if preview.against:
        head += f"\n\nAgainst {code(preview.against)}."
    if preview.settings:
        head += "\n\n" + "\n".join(
            ("Changed settings:\n", *(f"- {_property(prop)}" for prop in preview.settings))
        )
    if preview.failure:
        fence = "`" * max(3, _longest_run(preview.failure) + 1)
        return f"{head}\n\nThe preview failed:\n\n{fence}text\n{visible(preview.failure)}\n{fence}"
    if preview.dollars:
        head += f"\n\n{_hourly(preview.dollars)}"
    runs = []
    if not _loses_bucket(preview):
        runs = list(dict.fromkeys(_going_on(run) for run in preview.runs if run.goes_on))
    parts = (_kind(kind, preview.of(kind), detail) for kind in Kind)
    return "\n\n".join((head, *runs, *filter(None, parts)))


def _hourly(dollars: HourlyDollars) -> str:
    more = ", and more without a list price" if dollars.partly else ""
    prices = "dollars an hour at list prices when everything runs"
    if dollars.before == dollars.after:
        return f"{dollars.after:,.2f} {prices}{more}, as before."
    return f"**{dollars.before:,.2f} → {dollars.after:,.2f}** {prices}{more}."


def _kind(kind: Kind, changes: Sequence[Change], detail: _Detail) -> str:
    if not changes:
        return ""
    title = _count(kind, changes)
    if kind is Kind.CREATE and detail < _Detail.CREATED:
        return f"{title}."
    own = [change for change in changes if not change.reason]
    items = [*(line for change in own for line in _item(change, detail)), *_following(changes)]
    if kind is Kind.CREATE or (kind is Kind.UPDATE and len(changes) >= _FOLDED):
        return "\n".join((f"<details><summary>{title}</summary>\n", *items, "\n</details>"))
    return "\n".join((f"**{title}**\n" if kind in _LOSSES else f"{title}\n", *items))


def _following(changes: Sequence[Change]) -> Iterator[str]:
    """Resources that change because another one does, a line for each reason."""
    for reason in sorted({change.reason for change in changes} - {""}):
        names = [code(change.name) for change in changes if change.reason == reason]
        yield f"- {len(names)} more, each because {code(reason)}: {', '.join(names)}"


def _item(change: Change, detail: _Detail) -> Iterator[str]:
    yield f"- {code(change.name)} {code(change.type)}"
    enough = detail >= (_Detail.STATED if change.kind is Kind.CREATE else _Detail.VALUES)
    for prop in change.properties:
        if enough or prop.forces:
            yield f"  - {_property(prop)}"


def _property(prop: Property) -> str:
    value = f"{code(prop.old)} → {code(prop.new) or 'removed'}" if prop.old else code(prop.new)
    forces = " **forces the replacement**" if prop.forces else ""
    return f"{code(prop.path)}{': ' if value else ''}{value}{forces}"


def _longest_run(text: str) -> int:
    """Length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def _cut(text: str, limit: int) -> str:
    """As many whole lines as fit, with their folds and blocks closed."""
    text = text[:limit]
    while True:
        text = text.rpartition("\n")[0]
        cut = _closed(f"{text}\n") + _ENDING
        if len(cut) <= limit or not text:
            return cut


def _closed(text: str) -> str:
    """The text with its open block of code and open folds closed."""
    fences = re.findall("^```+", text, re.MULTILINE)
    if len(fences) % 2:
        text += f"{fences[-1]}\n"
    if text.count("<details>") > text.count("</details>"):
        text += "\n</details>\n"
    return text
