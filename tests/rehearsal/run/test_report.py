"""What `make rehearse-run` says while pods train."""

import re
from types import SimpleNamespace
from typing import Any

from rehearsal.control_plane.api import ApiError
from rehearsal.running_pods.report import TrainingLog


class StageStub:
    """A training that is at another step each time it is asked."""

    def __init__(self, *moments: Any) -> None:
        self._moments = list(moments)

    def steps(self) -> dict[int, dict[str, float]]:
        self._now = self._moments.pop(0)
        if isinstance(self._now, Exception):
            raise self._now
        return {self._now["step"]: self._now} if isinstance(self._now, dict) else {}

    def pods(self) -> list[dict[str, Any]]:
        return [{"status": {"phase": phase}} if phase else {} for phase in self._now]

    @property
    def is_over(self) -> bool:
        return not self._moments


def at(step: int, **dollars: float) -> dict[str, float]:
    """What a run of ten steps logs of one. A step takes ten seconds."""
    return {"step": step, "steps": 10, "loss": 8.0 - step, "seconds_left": 10.0 * (10 - step), **dollars}


def lines(*moments: Any) -> list[str]:
    """The lines of a training, and after how many seconds each came."""
    stage: Any = StageStub(*moments)
    pauses, logged = [], list[str]()

    def is_over(seconds: float) -> bool:
        pauses.append(seconds)
        return stage.is_over

    training = TrainingLog(stage, logged.append, is_over)
    with training:
        training._thread.join()
    assert set(pauses) == {10.0}
    return [re.sub(r"^ *\d+ s: ", "", line) for line in logged]


def test_every_ten_seconds_there_is_a_line_with_the_progress_or_what_the_pods_do() -> None:
    assert lines([], ["Running", "", "Pending"], at(2), at(3, dollars=0.456), at(4, dollars_over=12)) == [
        "no pod yet",
        "no step yet, pods: 2 Pending, 1 Running",
        "step 2 of 10, loss 6.000, 1 min 20 s to go",
        "step 3 of 10, loss 5.000, 1 min 10 s to go, 0.46 dollars so far",
        "step 4 of 10, loss 4.000, 1 min 00 s to go, over 12.00 dollars so far",
    ]


def test_an_api_server_that_is_gone_for_a_while_ends_nothing() -> None:
    assert lines(ApiError(503, "gone"), at(7)) == ["step 7 of 10, loss 1.000, 0 min 30 s to go"]


def test_the_lines_end_with_the_training() -> None:
    logged: list[str] = []
    silent: Any = SimpleNamespace(steps=dict, pods=list)
    with TrainingLog(silent, logged.append) as training:
        pass
    assert not training._thread.is_alive() and logged == []
