"""How long a container waits before it is started again, and what its status says of its end."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from container_stub import Clock, use

from rehearsal.errors import RehearsalError
from rehearsal.pods import life
from rehearsal.pods.life import Life

NO_SANDBOX: Any = SimpleNamespace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    use(monkeypatch, clock)
    return clock


@pytest.fixture
def starts(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of a container's starts. Its process ends at once with 1, and has no probes."""
    starts: list[float] = []

    def start(_sandbox: object) -> SimpleNamespace:
        starts.append(clock.now)
        return SimpleNamespace(exit_code=lambda: 1, last_output=lambda: "the end of its log")

    monkeypatch.setattr(life, "Probes", lambda *_: SimpleNamespace(failure="", ready=True, started=True))
    monkeypatch.setattr(life, "Process", start)
    return starts


def test_a_container_that_fails_is_started_again_after_twice_as_long_each_time_and_five_minutes_at_most(
    clock: Clock, starts: list[float]
) -> None:
    container = Life({"name": "main"}, "OnFailure", NO_SANDBOX, "10.8.0.2", 30)
    while len(starts) < 8:
        container.tick()
        clock.now += 1
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    # A second to see the end, of ten a first pause.
    assert [round(pause) - 1 for pause in pauses] == [10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(
    ("policy", "message"), [("File", None), ("FallbackToLogsOnError", "the end of its log")]
)
def test_a_container_that_failed_for_good_has_its_log_as_message_where_it_asks_for_that(
    starts: list[float], policy: str, message: str | None
) -> None:
    tree = {"name": "main", "image": "finetune", "terminationMessagePolicy": policy}
    container = Life(tree, "Never", NO_SANDBOX, "10.8.0.2", 30)
    container.tick()
    container.tick()
    ended = container.status()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended.get("message")) == (1, "Error", message)
    assert container.done and len(starts) == 1


def test_a_container_that_lacks_something_says_what_and_is_tried_again_a_second_later(
    clock: Clock, starts: list[float]
) -> None:
    missing = ['secret "late" not found']

    def sandbox() -> Any:
        if missing:
            raise RehearsalError(missing.pop())

    container = Life({"name": "main", "image": "finetune"}, "Never", sandbox, "10.8.0.2", 30)
    container.tick()
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "late" not found'}
    assert container.status()["state"] == {"waiting": waiting}
    container.tick()
    assert not starts
    clock.now += 1
    container.tick()
    assert len(starts) == 1 and "running" in container.status()["state"]


def test_a_container_that_has_not_begun_when_its_pod_goes_never_begins(starts: list[float]) -> None:
    container = Life({"name": "main", "image": "finetune"}, "Always", NO_SANDBOX, "10.8.0.2", 30)
    container.leave(30)
    container.tick()
    assert container.done and not starts
