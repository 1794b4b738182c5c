"""The changes of a preview, cut down to what a comment shows and without secrets."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ValidationError


class Kind(StrEnum):
    """What happens to a resource, in the order of alarm."""

    DELETE = "delete"
    REPLACE = "replace"
    UPDATE = "update"
    CREATE = "create"


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property that changes. Its values are short texts, empty for none.

    `forces` says whether its change replaces the resource.
    """

    path: str
    old: str
    new: str
    forces: bool = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happens to one resource.

    `reason` says why, if no property of its own does. A created resource has all its inputs as `properties`.
    """

    kind: Kind
    type: str
    name: str
    reason: str = ""
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunChange:
    """Runs that a job trains before and after its change. `after` is empty if the job is deleted.

    The steps say how far the runs are, and `steps` how many the first one has. They are None if the bucket
    cannot be read. `finished` says whether the run before the change is finished.
    """

    before: str
    after: str
    before_step: int | None = None
    steps: int | None = None
    after_step: int | None = None
    finished: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether the job that takes the old one's place trains the same run."""
        return self.before == self.after


@dataclass(frozen=True, kw_only=True)
class HourlyDollars:
    """What an hour costs before and after a change, when everything runs, at list prices.

    `partly` says whether something has no price.
    """

    before: float
    after: float
    partly: bool = False


@dataclass(frozen=True, kw_only=True)
class StackPreview:
    """The preview of one stack. `against` says in words what it is compared with.

    Changes are in the engine's order, which varies. A `failure` says why there is no preview, and then there
    are no changes. `warnings` are the program's. `unchanged` counts resources and components. `settings` are
    the changed values of its stack file and its recipe. `protected` names the buckets that it would replace
    or delete, which `up` refuses. `dollars` is None if no price is known.
    """

    stack: str
    against: str = ""
    changes: tuple[Change, ...] = ()
    runs: tuple[RunChange, ...] = ()
    warnings: tuple[str, ...] = ()
    unchanged: int = 0
    failure: str = ""
    settings: tuple[Property, ...] = ()
    protected: tuple[str, ...] = ()
    dollars: HourlyDollars | None = None

    def of(self, kind: Kind) -> list[Change]:
        """The changes of a kind, sorted by type and name."""
        changes = (change for change in self.changes if change.kind == kind)
        return sorted(changes, key=lambda change: (change.type, change.name))


class Previews(BaseModel, frozen=True):
    """The previews of a merge request: of every stack whose inputs changed, sorted by name. `untouched` names
    the others.

    `commit` is the full name of the commit. Stacks are `removed` with their files.
    """

    commit: str
    stacks: tuple[StackPreview, ...]
    untouched: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a stack has no preview, or `up` would refuse its change."""
        return any(preview.failure or preview.protected for preview in self.stacks)


def from_json(text: str) -> Previews:
    """Reads a saved preview, or a file that somebody passes off as one.

    Raises:
        ValueError: When it is anything else. The message does not repeat the text.
    """
    try:
        return Previews.model_validate_json(text, strict=True)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        what = ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"])))
        raise ValueError(f"this is not a file that `preview-comment --save` wrote: {what}") from None
