"""A container without a process, on a clock that a test moves: what the kubelet decides by itself."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from rehearsal.pods import life


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class ProcessStub:
    """A process whose waits move the clock, and which ends in the wait after the last result of a probe.

    Args:
        clock: The clock.
        results: How its commands end, one after the other.

    Attributes:
        asked: When a command was executed.
        patience: How many seconds the last command had.
    """

    def __init__(self, clock: Clock, results: Sequence[bool] = ()) -> None:
        self._clock, self._results = clock, list(results)
        self._code: int | None = None
        self.asked: list[float] = []
        self.patience = 0.0

    def exit_code(self) -> int | None:
        return self._code

    def wait(self, seconds: float) -> None:
        self._clock.now += seconds
        if not self._results:
            self._code = 1

    def execute(self, _command: Sequence[str], seconds: float) -> bool:
        self.patience = seconds
        self.asked.append(self._clock.now)
        return self._results.pop(0)


class Threads:
    """Threads that run one after the other, when the test says so."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def run(self) -> None:
        """Runs those that were started, and those that they start."""
        while self._waiting:
            self._waiting.pop(0)()

    def Thread(self, target: Callable[..., None], args: tuple = (), daemon: bool = False) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: self._waiting.append(lambda: target(*args)))


def use(monkeypatch: pytest.MonkeyPatch, clock: Clock, threads: Threads | None = None) -> None:
    """Gives the module of a container's life this clock and these threads."""
    monkeypatch.setattr(life, "time", clock)
    if threads:
        monkeypatch.setattr(life, "threading", threads)
