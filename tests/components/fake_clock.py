"""Time for a test."""

from dataclasses import dataclass

from components.base.clock import Clock, Interrupted


@dataclass
class FakeClock(Clock):
    """Time that passes only by waiting for it.

    Args:
        ends: At which second the process is interrupted.
    """

    ends: float = float("inf")
    time: float = 0.0

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += seconds
        if self.time >= self.ends:
            raise Interrupted
