"""When a probe's answers start a container, end it, or take it out of its Service."""

from collections.abc import Sequence
from typing import Any

import pytest
from container_stub import Clock, ProcessStub, Threads, use

from rehearsal.pods.life import Probes

ASKS = {"exec": {"command": ["true"]}}


class Probed:
    """A container with one probe, which has been asked until its process ended."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, kind: str, probe: dict, results: Sequence[bool]
    ) -> None:
        clock, threads = Clock(), Threads()
        use(monkeypatch, clock, threads)
        process: Any = ProcessStub(clock, results)
        self.probes = Probes({"name": "main", kind: {**ASKS, **probe}}, process, "10.8.0.2")
        threads.run()
        self.asked = process.asked
        self.patience = process.patience


def test_a_container_is_ended_after_as_many_failures_in_a_row_as_its_probe_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = {"failureThreshold": 3, "periodSeconds": 5, "initialDelaySeconds": 60}
    answers = [True, False, False, True, False, False, False, True]
    probed = Probed(monkeypatch, "livenessProbe", probe, answers)
    assert probed.probes.failure == "liveness probe failed"
    assert probed.asked == [60.0, 65.0, 70.0, 75.0, 80.0, 85.0, 90.0]


def test_a_probe_that_says_nothing_else_is_asked_every_ten_seconds_and_may_fail_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probed = Probed(monkeypatch, "livenessProbe", {}, [False, False, True, False, False, False, True])
    assert probed.probes.failure == "liveness probe failed"
    assert probed.asked == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]


def test_a_probe_has_ten_times_its_seconds_because_a_busy_machine_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Probed(monkeypatch, "livenessProbe", {"timeoutSeconds": 5}, [True]).patience == 50
    assert Probed(monkeypatch, "livenessProbe", {}, [True]).patience == 10


def test_a_container_that_does_not_start_in_time_is_ended_and_one_that_does_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = {"failureThreshold": 2}
    late = Probed(monkeypatch, "startupProbe", probe, [False, False, True]).probes
    assert (late.started, late.ready, late.failure) == (False, False, "startup probe failed")
    good = Probed(monkeypatch, "startupProbe", probe, [False, True, True]).probes
    assert (good.started, good.ready, good.failure) == (True, True, "")


@pytest.mark.parametrize(
    ("answers", "ready"),
    [
        ([False], False),
        ([False, True], True),
        ([True, False, False], True),
        ([True, False, False, False], False),
        ([True, False, False, False, True], True),
    ],
)
def test_a_container_is_ready_from_the_first_answer_until_three_failures_in_a_row(
    monkeypatch: pytest.MonkeyPatch, answers: list[bool], ready: bool
) -> None:
    probes = Probed(monkeypatch, "readinessProbe", {}, answers).probes
    assert (probes.ready, probes.failure) == (ready, "")
