"""The text of the comment: what is lost in front, everything in order, never too long."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from engine.plan import short_type
from operations.previews.changes import Change, Kind, Previews, Property, StackPreview
from operations.previews.redaction import Redaction

# The first line of every comment of ours: by it the next preview finds the one to replace.
MARKER: Final = "<!-- llm-stacks: what this merge request changes -->"

_DONE: Final = {
    Kind.DELETE: "deleted",
    Kind.REPLACE: "replaced",
    Kind.UPDATE: "updated",
    Kind.CREATE: "created",
}
_LOSSES: Final = (Kind.DELETE, Kind.REPLACE)
# From this many resources on a list is folded, unless something in it is lost.
_FOLDED: Final = 6
_ENDING: Final = "\n\n*The rest is cut off: a comment is not that long. The job's artifact has all of it.*\n"


@dataclass(frozen=True)
class _Detail:
    """How much is told; less of it when the comment would be too long.

    Args:
        stated: Log what a created resource is like.
        values: Log what changes of a resource that stays, from what to what.
        created: Name the created resources.
    """

    stated: bool = True
    values: bool = True
    created: bool = True


_DETAILS: Final = (
    _Detail(),
    _Detail(stated=False),
    _Detail(stated=False, values=False),
    _Detail(stated=False, values=False, created=False),
)


def render(
    previews: Previews, redaction: Redaction, limit: int, title: str = "What this merge request changes"
) -> str:
    """The comment in Markdown.

    Args:
        previews: What it tells.
        redaction: Goes over the whole text once more.
        limit: Greatest length in characters.
        title: Its heading.
    """
    texts = (redaction.text(_comment(previews, title, detail)) for detail in _DETAILS)
    text = ""
    for text in texts:
        if len(text) <= limit:
            return text
    return _cut(text, limit)


def code(text: str) -> str:
    """A text as it is, whatever Markdown would make of it; a comment must not be able to call people."""
    flat = " ".join(text.split())
    fence = "`" * (_longest_run(flat) + 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}" if flat else ""


def _comment(previews: Previews, title: str, detail: _Detail) -> str:
    parts = [MARKER, f"## {title}", _caution(previews), _intro(previews)]
    parts += [_stack(preview, detail) for preview in previews.stacks]
    if previews.stacks and previews.untouched:
        names = ", ".join(map(code, previews.untouched))
        parts.append(f"Nothing that these stacks are made of has changed: {names}.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _caution(previews: Previews) -> str:
    """What somebody would regret, before everything else."""
    lines = [
        f"> **{code(preview.stack)}: the preview failed.**" for preview in previews.stacks if preview.failure
    ]
    lines += [
        f"> **{code(stack)} is removed.** What it created stays: destroy it first, from the target branch."
        for stack in previews.removed
    ]
    for preview in previews.stacks:
        lost = [change for kind in _LOSSES for change in preview.of(kind)]
        if lost:
            counts = " and ".join(
                f"{len(preview.of(kind))} {_DONE[kind]}" for kind in _LOSSES if preview.of(kind)
            )
            lines.append(f"> **{code(preview.stack)}: {counts}.** {_headlines(lost)}")
    return "\n".join(("> [!CAUTION]", ">\n".join(f"{line}\n" for line in lines).rstrip())) if lines else ""


# What holds work or takes long to get back, named in the warning itself.
_PRECIOUS: Final = (":Bucket", ":Cluster", ":NodePool", ":PersistentVolumeClaim", ":CryptoKey", ":Repository")


def _headlines(lost: Sequence[Change]) -> str:
    precious = [change for change in lost if change.type.endswith(_PRECIOUS)]
    named = ", ".join(code(change.name) for change in precious)
    return f"What these hold is lost: {named}." if precious else ""


def _intro(previews: Previews) -> str:
    if not previews.stacks:
        return "No stack: nothing that a stack is made of has changed."
    head = "| stack | deleted | replaced | updated | created | unchanged |\n|---|--:|--:|--:|--:|--:|"
    rows = "\n".join(_row(preview) for preview in previews.stacks)
    return f"Commit {code(previews.commit[:12])}.\n\n{head}\n{rows}"


def _row(preview: StackPreview) -> str:
    # A table's cells end at a bar even inside of code.
    name = code(preview.stack.replace("|", " "))
    if preview.failure:
        return f"| {name} | failed | | | | |"
    counts = [
        f"**{count}**" if count and kind in _LOSSES else str(count)
        for kind, count in ((kind, len(preview.of(kind))) for kind in Kind)
    ]
    return f"| {name} | {' | '.join(counts)} | {preview.unchanged} |"


def _stack(preview: StackPreview, detail: _Detail) -> str:
    head = f"### {code(preview.stack)}"
    if preview.against:
        head += f"\n\nAgainst {code(preview.against)}."
    if preview.failure:
        return f"{head}\n\nThe preview failed:\n\n{_fenced(preview.failure)}"
    if not preview.changes:
        return f"{head}\n\nNothing changes."
    parts = (_kind(kind, preview.of(kind), detail) for kind in Kind)
    return "\n\n".join((head, *filter(None, parts)))


def _kind(kind: Kind, changes: Sequence[Change], detail: _Detail) -> str:
    if not changes:
        return ""
    title = f"{len(changes)} {_DONE[kind]}"
    if kind is Kind.CREATE and not detail.created:
        return f"{title}."
    own = [change for change in changes if not change.reason]
    items = [*chain.from_iterable(_item(change, detail) for change in own), *_following(changes)]
    if kind in _LOSSES:
        return "\n".join((f"**{title}**\n", *items))
    if kind is Kind.UPDATE and len(changes) < _FOLDED:
        return "\n".join((f"{title}\n", *items))
    return "\n".join((f"<details><summary>{title}</summary>\n", *items, "\n</details>"))


def _following(changes: Sequence[Change]) -> Iterator[str]:
    """Those that something else takes along, one line a reason."""
    for reason in sorted({change.reason for change in changes} - {""}):
        names = [code(change.name) for change in changes if change.reason == reason]
        yield f"- {len(names)} more, each because {code(reason)}: {', '.join(names)}"


def _item(change: Change, detail: _Detail) -> Iterator[str]:
    kind = short_type(change.type) if change.type.count(":") == 2 else change.type
    yield f"- {code(change.name)} {code(kind)}"
    shown: Callable[[Property], bool] = {
        Kind.CREATE: lambda each: detail.stated,
        Kind.DELETE: lambda each: False,
    }.get(change.kind, lambda each: detail.values or each.forces)
    for each in filter(shown, change.properties):
        yield f"  - {_property(each)}"


def _property(each: Property) -> str:
    forces = " **forces the replacement**" if each.forces else ""
    if not each.old and not each.new:
        return f"{code(each.path)}{forces}"
    if not each.old:
        return f"{code(each.path)}: {code(each.new)}{forces}"
    return f"{code(each.path)}: {code(each.old)} → {code(each.new) or 'removed'}{forces}"


def _fenced(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    """Length of the longest run of backticks."""
    longest = current = 0
    for character in text:
        current = current + 1 if character == "`" else 0
        longest = max(longest, current)
    return longest


def _cut(text: str, limit: int) -> str:
    """As many whole lines as fit, whatever was open in them closed."""
    lines = text.splitlines(keepends=True)

    def cut(count: int) -> str:
        return _closed("".join(lines[:count])) + _ENDING

    count = bisect_right(range(len(lines)), limit, key=lambda count: len(cut(count)))
    # What closes a fold makes a shorter text the longer one now and then.
    while count and len(cut(count)) > limit:
        count -= 1
    return cut(count)


def _closed(text: str) -> str:
    """The text with what is open in it closed: a block of code, a fold."""
    fences = [line for line in text.splitlines() if line.startswith("```")]
    if len(fences) % 2:
        text += "`" * (len(fences[-1]) - len(fences[-1].lstrip("`"))) + "\n"
    open_folds = text.count("<details>") - text.count("</details>")
    return text + "\n</details>\n" * (open_folds > 0)
