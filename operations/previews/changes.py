"""What a preview would change, cut down to what a comment shows and free of secrets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What happens to a resource, the most alarming first."""

    DELETE = "delete"
    REPLACE = "replace"
    UPDATE = "update"
    CREATE = "create"


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property that changes.

    Args:
        path: Where it is, such as `nodeConfig.machineType`.
        old: Its value as a short text, empty when there was none.
        new: The value that it gets, empty when there will be none.
        forces: Whether its change replaces the resource.
    """

    path: str
    old: str
    new: str
    forces: bool = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happens to one resource.

    Args:
        kind: What happens.
        type: Type token.
        name: Logical name.
        reason: Why, where no property of its own says so.
        properties: What changes; of a created resource everything that the program states.
    """

    kind: Kind
    type: str
    name: str
    reason: str = ""
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StackPreview:
    """The preview of one stack.

    Args:
        stack: Its name.
        against: What it was compared with, in words.
        changes: What would change, in the order of `Kind`, then of types and names.
        unchanged: Number of resources and components that stay as they are.
        failure: Why there is no preview; there are no changes then.
    """

    stack: str
    against: str = ""
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    failure: str = ""

    def of(self, kind: Kind) -> list[Change]:
        """The changes of a kind."""
        return [change for change in self.changes if change.kind == kind]


@dataclass(frozen=True, kw_only=True)
class Previews:
    """The previews of a merge request.

    Args:
        commit: What was previewed, by its full name.
        stacks: A preview for each stack whose inputs changed, in the order of their names.
        untouched: The other stacks.
        removed: Stacks whose files the merge request removes.
    """

    commit: str
    stacks: tuple[StackPreview, ...]
    untouched: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a stack has no preview."""
        return any(preview.failure for preview in self.stacks)


def ordered(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Changes in an order that does not depend on the engine."""
    kinds = list(Kind)
    return tuple(sorted(changes, key=lambda each: (kinds.index(each.kind), each.type, each.name)))


def as_json(previews: Previews) -> str:
    """The previews as a text that `from_json` reads."""
    return json.dumps(asdict(previews), indent=2, sort_keys=True) + "\n"


def from_json(text: str) -> Previews:
    """Reads what `as_json` wrote, or what somebody wants to pass off as that.

    Raises:
        ValueError: When it is anything else.
    """
    try:
        return _previews(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"this is not a file that `preview-comment --save` wrote: {error}") from None


def _previews(value: Any) -> Previews:
    return Previews(
        commit=_text(value["commit"]),
        stacks=tuple(_stack(each) for each in value["stacks"]),
        untouched=tuple(_text(each) for each in value["untouched"]),
        removed=tuple(_text(each) for each in value["removed"]),
    )


def _stack(value: Mapping[str, Any]) -> StackPreview:
    return StackPreview(
        stack=_text(value["stack"]),
        against=_text(value["against"]),
        changes=ordered([_change(each) for each in value["changes"]]),
        unchanged=int(value["unchanged"]),
        failure=_text(value["failure"]),
    )


def _change(value: Mapping[str, Any]) -> Change:
    return Change(
        kind=Kind(value["kind"]),
        type=_text(value["type"]),
        name=_text(value["name"]),
        reason=_text(value["reason"]),
        properties=tuple(_property(each) for each in value["properties"]),
    )


def _property(value: Mapping[str, Any]) -> Property:
    return Property(
        path=_text(value["path"]),
        old=_text(value["old"]),
        new=_text(value["new"]),
        forces=value["forces"] is True,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value
