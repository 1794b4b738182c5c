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
    """Why something waits or has failed.

    Args:
        text: In plain words.
        remedy: What to do; empty when it passes by itself.
        bad: Whether it does not pass by itself.
    """

    text: str
    remedy: str = ""
    bad: bool = True


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing and how it is.

    Args:
        kind: What it is, such as `pod`.
        name: Its name.
        state: How it is, in a word or two.
        detail: What else there is to know.
        health: Whether somebody must look at it.
        why: Why it waits or has failed.
    """

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
    """One look.

    Args:
        stack: Name of the stack.
        lines: Everything, in the order in which it is shown.
        progress: What the training has logged, None before its first step.
        unseen: What could not be looked at, and why.
    """

    stack: str
    lines: tuple[Line, ...]
    progress: Progress | None
    unseen: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """1 when something needs somebody, 2 when something could not be looked at, else 0."""
        return exit_status(any(line.health is Health.BAD for line in self.lines), self.unseen)
