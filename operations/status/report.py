"""The report of `status`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from operations.findings import exit_status
from operations.status.metrics import Progress


class Health(StrEnum):
    """Whether a person must look at it."""

    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"


@dataclass(frozen=True, kw_only=True)
class Why:
    """Why something waits or has failed, and what to do. `bad` means that it does not pass by itself."""

    text: str
    remedy: str = ""
    bad: bool = True


@dataclass(frozen=True, kw_only=True)
class Line:
    """The status of one object, such as a `pod`, in a word or two, and why it waits or has failed."""

    kind: str
    name: str
    state: str
    detail: str = ""
    health: Health = Health.GOOD
    why: Why | None = None


def line(
    kind: str, name: str, state: str, *details: str, waits: bool = False, why: Why | None = None
) -> Line:
    """A line whose level follows from waiting and from the reason."""
    health = Health.WAITING if why or waits else Health.GOOD
    if why and why.bad:
        health = Health.BAD
    return Line(
        kind=kind, name=name, state=state, detail=", ".join(filter(None, details)), health=health, why=why
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """The lines of a report in their order, and the parts that could not be read, with reasons.

    `links` are addresses of the console's pages by what they show.
    """

    stack: str
    lines: tuple[Line, ...]
    progress: Progress | None
    unseen: tuple[str, ...]
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_status(self) -> int:
        """The exit status: 1 if something needs a person, 2 if something could not be read, else 0."""
        return exit_status(any(line.health is Health.BAD for line in self.lines), self.unseen)
