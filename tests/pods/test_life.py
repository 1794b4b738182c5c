"""How long a container waits before it is started again."""

import itertools
from types import SimpleNamespace

import pytest

from rehearsal.pods import life
from rehearsal.pods.life import Life


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_container_that_fails_is_started_again_after_twice_as_long_each_time_and_five_minutes_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, starts = Clock(), list[float]()
    monkeypatch.setattr(life, "time", clock)
    monkeypatch.setattr(life, "Probes", lambda *_: None)

    def start(_sandbox: object) -> SimpleNamespace:
        starts.append(clock.now)
        return SimpleNamespace(exit_code=lambda: 1)

    monkeypatch.setattr(life, "Process", start)
    sandbox = SimpleNamespace
    container = Life({"name": "main"}, "OnFailure", sandbox, "10.8.0.2", 30)  # ty: ignore[invalid-argument-type]
    while len(starts) < 8:
        container.tick()
        clock.now += 1
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    # A second to see the end, of ten a first pause.
    assert [round(pause) - 1 for pause in pauses] == [10, 20, 40, 80, 160, 300, 300]
