"""When a job gives up a capacity, in simulated minutes. tests/control_plane/ has the real Kueue."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from capacity_keeper.search import MOVE, HoldBack, Job, Release, Renew, Stage, Start, Stop, decide

MINUTES = {"reservation": 30.0, "flex-start": 240.0, "spot": 30.0}
BEGIN = datetime(2026, 11, 28, tzinfo=UTC)


def waiting(capacity: str, since: datetime = BEGIN) -> Job:
    """A job whose pods wait for nodes of a capacity."""
    return Job(name="job", stage=Stage.WAITING, capacity=capacity, since=since, stays=True)


def after(minutes: float) -> datetime:
    """A time."""
    return BEGIN + timedelta(minutes=minutes)


@pytest.mark.parametrize(("capacity", "minutes"), MINUTES.items())
def test_a_job_gives_up_a_capacity_after_its_own_minutes(capacity: str, minutes: float) -> None:
    job = waiting(capacity)
    assert list(decide(MINUTES, {}, [job], after(minutes - 0.1))) == []
    assert list(decide(MINUTES, {}, [job], after(minutes))) == [
        HoldBack(capacity=capacity),
        Stop(job=job, first=True),
    ]


def test_a_stopped_job_waits_in_the_queue_again_once_kueue_has_let_it_go() -> None:
    stopped = Job(name="job", stage=Stage.STOPPED, stays=True)
    holds = {"reservation": BEGIN}
    assert list(decide(MINUTES, holds, [stopped], BEGIN)) == []
    gone = replace(stopped, stays=False)
    assert list(decide(MINUTES, holds, [gone], BEGIN)) == [Start(job=gone)]


def test_a_job_whose_nodes_are_lost_is_queued_as_a_new_one_once_kueue_has_let_it_go() -> None:
    lost = Job(name="job", stage=Stage.LOST, stays=True)
    assert list(decide(MINUTES, {}, [lost], BEGIN)) == []
    gone = replace(lost, stays=False)
    assert list(decide(MINUTES, {}, [gone], BEGIN)) == [Renew(job=gone)]


def test_after_the_last_capacity_the_first_is_tried_again() -> None:
    stopped = Job(name="job", stage=Stage.STOPPED)
    actions = list(decide(MINUTES, dict.fromkeys(MINUTES, BEGIN), [stopped], BEGIN))
    assert actions == [*(Release(capacity=capacity) for capacity in MINUTES), Start(job=stopped)]


def test_nothing_is_held_back_when_nobody_searches() -> None:
    holds = {"reservation": BEGIN}
    placed = Job(name="job", stage=Stage.PLACED, capacity="spot", stays=True)
    for jobs in ([], [placed]):
        assert list(decide(MINUTES, holds, jobs, BEGIN)) == [Release(capacity="reservation")]
    assert list(decide(MINUTES, holds, [placed, waiting("spot")], BEGIN)) == []


def test_a_job_that_waits_long_in_the_queue_keeps_no_capacity_from_others_for_ever() -> None:
    queued = Job(name="job", stage=Stage.QUEUED)
    holds = {"reservation": BEGIN}
    longest = 300 + 3 * MOVE
    assert list(decide(MINUTES, holds, [queued], after(longest - 1))) == []
    assert list(decide(MINUTES, holds, [queued], after(longest))) == [Release(capacity="reservation")]


def test_a_job_leaves_a_capacity_that_is_no_longer_in_the_list_at_once() -> None:
    job = waiting("on-demand")
    assert list(decide(MINUTES, {}, [job], BEGIN)) == [Stop(job=job, first=True)]
    # It has nodes, or no flavor.
    placed = replace(job, stage=Stage.PLACED, since=None)
    assert list(decide(MINUTES, {}, [placed, replace(job, capacity="")], BEGIN)) == []


def test_pods_that_end_slowly_do_not_keep_the_last_capacity_from_being_tried() -> None:
    minutes = dict.fromkeys("abc", 5.0)
    held, queued = {"a": BEGIN, "b": after(10)}, Job(name="job", stage=Stage.QUEUED)
    assert list(decide(minutes, held, [queued], after(20))) == []


@dataclass
class Platform:
    """Machines that come and go by a random schedule, and one job of two pods.

    Attributes:
        free: The machines of each capacity.
        pods: The capacity of each pod of the job that has a node.
    """

    chance: random.Random
    free: dict[str, int] = field(default_factory=dict)
    holds: dict[str, datetime] = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)
    capacity: str = ""
    active: bool = True
    since: datetime = BEGIN

    def pass_a_minute(self, now: datetime) -> None:
        """Machines come and go, Kueue admits, the platform makes nodes, and the keeper decides."""
        if self.chance.random() < 0.05:
            self.free[self.chance.choice([*MINUTES])] = self.chance.randrange(4)
        if self.pods and self.chance.random() < 0.01:
            self.pods.pop()  # a node is lost, and its pod waits for another
            self.since = now
        if not self.capacity and self.active:
            open_ones = [capacity for capacity in MINUTES if capacity not in self.holds]
            self.capacity, self.since = open_ones[0] if open_ones else "", now
        while self.capacity and len(self.pods) < 2 and self.free.get(self.capacity, 0):
            self.free[self.capacity] -= 1
            self.pods.append(self.capacity)
        for action in decide(MINUTES, self.holds, [self._job()], now):
            self._do(action, now)

    def _job(self) -> Job:
        if not self.active:
            return Job(name="job", stage=Stage.STOPPED)
        if not self.capacity:
            return Job(name="job", stage=Stage.QUEUED)
        if len(self.pods) == 2:
            return Job(name="job", stage=Stage.PLACED, capacity=self.capacity, stays=True)
        return waiting(self.capacity, self.since)

    def _do(self, action: object, now: datetime) -> None:
        if isinstance(action, HoldBack):
            self.holds[action.capacity] = now
        elif isinstance(action, Release):
            del self.holds[action.capacity]
        elif isinstance(action, Stop):
            assert len(self.pods) < 2, "a job that has its nodes is never stopped"
            for capacity in self.pods:
                self.free[capacity] += 1
            self.pods, self.capacity, self.active = [], "", False
        elif isinstance(action, Start):
            self.active = True


@pytest.mark.parametrize("seed", range(100))
def test_in_any_weather_a_job_keeps_its_nodes_and_comes_to_those_that_there_are(seed: int) -> None:
    platform = Platform(chance=random.Random(seed))
    for minute in range(3000):
        platform.pass_a_minute(after(minute))
    _give(platform, {"spot": 2})
    for minute in range(3000, 3000 + 2 * 300 + 10):
        platform.chance = _Calm()
        platform.pass_a_minute(after(minute))
    assert len(platform.pods) == 2


def _give(platform: Platform, free: Mapping[str, int]) -> None:
    for capacity, count in free.items():
        platform.free[capacity] = max(count, platform.free.get(capacity, 0))


class _Calm(random.Random):
    """No machine comes or goes any more."""

    def random(self) -> float:
        return 1.0
