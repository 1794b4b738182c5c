"""What a preview would change, cut down to what a comment shows and free of secrets."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ValidationError


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
        type: Type token, such as `gcp:storage:Bucket`.
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
        changes: What would change, in the engine's order, which is another one every time.
        unchanged: Number of resources and components that stay as they are.
        failure: Why there is no preview; there are no changes then.
    """

    stack: str
    against: str = ""
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    failure: str = ""

    def of(self, kind: Kind) -> list[Change]:
        """The changes of a kind, in the order of types and names."""
        found = (change for change in self.changes if change.kind == kind)
        return sorted(found, key=lambda change: (change.type, change.name))


class Previews(BaseModel, frozen=True):
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


def from_json(text: str) -> Previews:
    """Reads what was saved, or what somebody wants to pass off as that.

    Raises:
        ValueError: When it is anything else; the text is not repeated.
    """
    try:
        return Previews.model_validate_json(text, strict=True)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        what = ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"])))
        raise ValueError(f"this is not a file that `preview-comment --save` wrote: {what}") from None
