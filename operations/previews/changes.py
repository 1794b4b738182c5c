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
    """A property that changes; its values are short texts, empty for none.

    `forces` says whether its change replaces the resource.
    """

    path: str
    old: str
    new: str
    forces: bool = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happens to one resource.

    `reason` says why where no property of its own does; of a created one `properties` are all that is stated.
    """

    kind: Kind
    type: str
    name: str
    reason: str = ""
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StackPreview:
    """The preview of one stack, `against` what is said in words.

    Changes are in the engine's order, which is another one every time; there are none with a `failure`, which
    says why there is no preview. `warnings` are the program's. `unchanged` counts resources and components.
    """

    stack: str
    against: str = ""
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()
    unchanged: int = 0
    failure: str = ""

    def of(self, kind: Kind) -> list[Change]:
        """The changes of a kind, in the order of types and names."""
        found = (change for change in self.changes if change.kind == kind)
        return sorted(found, key=lambda change: (change.type, change.name))


class Previews(BaseModel, frozen=True):
    """The previews of a merge request: of each stack whose inputs changed, by name; other stacks are named.

    `commit` is what was previewed, by its full name; stacks are `removed` with their files.
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
