"""What `status` shows."""

from dataclasses import dataclass
from enum import StrEnum

from operations.findings import exit_status
from operations.status.metrics import Progress


class Health(StrEnum):
    """Whether somebody must look at something."""

    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"


@dataclass(frozen=True, kw_only=True)
class Why:
    """Why something waits or has failed, and what to do; `bad` when it does not pass by itself."""

    text: str
    remedy: str = ""
    bad: bool = True


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing, such as a `pod`, how it is in a word or two, and why it waits or has failed."""

    kind: str
    name: str
    state: str
    detail: str = ""
    health: Health = Health.GOOD
    why: Why | None = None


def line(
    kind: str, name: str, state: str, *details: str, waits: bool = False, why: Why | None = None
) -> Line:
    """A line for something that is well unless it waits, or there is a reason why it is not."""
    health = Health.BAD if why and why.bad else Health.WAITING if why or waits else Health.GOOD
    return Line(
        kind=kind, name=name, state=state, detail=", ".join(filter(None, details)), health=health, why=why
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """One look: everything in the order in which it is shown, and what could not be looked at, and why."""

    stack: str
    lines: tuple[Line, ...]
    progress: Progress | None
    unseen: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """1 when something needs somebody, 2 when something could not be looked at, else 0."""
        return exit_status(any(line.health is Health.BAD for line in self.lines), self.unseen)
