"""Decides when a job gives up a capacity, and which capacities are held back.

Kueue admits a job to the first capacity that is not held back, and GKE then looks for its nodes. A pod of
the job may wait longer than the capacity's minutes. Then the keeper holds the capacity back and stops the
job, and Kueue admits the job to the next capacity. All pods go together, so a job never stands on two.

Nothing is remembered between two rounds: what is decided stands in the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

# Minutes of one move: the pods of the job end, and Kueue lets it go.
MOVE = 10.0


class Stage(Enum):
    """How far a job has come."""

    QUEUED = "queued"  # Kueue has not admitted it
    WAITING = "waiting"  # it is admitted, and a pod has no node
    PLACED = "placed"  # all its pods have nodes
    STOPPED = "stopped"  # the keeper has stopped it
    LOST = "lost"  # GKE has taken its nodes back


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job in the queue.

    Args:
        name: Name of its workload, Kueue's object for it.
        capacity: The capacity that it is admitted to. Empty if it is not admitted.
        since: The time since which a pod of it waits for a node. None if none waits.
        stays: Whether a job that is off still has pods, or Kueue still counts them.
    """

    name: str
    stage: Stage
    capacity: str = ""
    since: datetime | None = None
    stays: bool = False


@dataclass(frozen=True, kw_only=True)
class HoldBack:
    """Let Kueue admit no job to the capacity."""

    capacity: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """Let Kueue admit jobs to the capacity again."""

    capacity: str


@dataclass(frozen=True, kw_only=True)
class Stop:
    """End all pods of the job.

    Args:
        first: Whether its search begins with the capacity that it gives up.
    """

    job: Job
    first: bool


@dataclass(frozen=True, kw_only=True)
class Start:
    """Let the job wait in the queue again."""

    job: Job


@dataclass(frozen=True, kw_only=True)
class Renew:
    """Let Kueue forget what it knows of the job, and take it into the queue as a new one."""

    job: Job


Action = HoldBack | Release | Stop | Start | Renew


def decide(
    minutes: Mapping[str, float],
    holds: Mapping[str, datetime],
    jobs: Iterable[Job],
    now: datetime,
    *,
    move: float = MOVE,
) -> Iterator[Action]:
    """What to do now, in this order.

    Args:
        minutes: Time for which each capacity is tried, in the order of the capacities.
        holds: The capacities that are held back, with the times since when.
        jobs: The jobs in the queue that have not finished.
        move: Time of one move, in minutes.
    """
    jobs = list(jobs)
    for job in jobs:
        # A person has taken the capacity out of the list, so its nodes never come.
        if job.since and job.capacity and job.capacity not in minutes:
            yield Stop(job=job, first=True)
            return
    for job in jobs:
        longest = timedelta(minutes=minutes.get(job.capacity, 0))
        if job.capacity in minutes and job.since and now - job.since >= longest:
            yield HoldBack(capacity=job.capacity)
            yield Stop(job=job, first=not holds)
            # The others are judged in the next round, which sees what this one has done.
            return
    longest_search = timedelta(minutes=sum(minutes.values()) + move * len(minutes))
    yield from map(_release, _over(minutes, holds, jobs, now - longest_search))
    # Kueue forgets nothing of a job that it has not let go yet. And no pod may stand on the capacity
    # before when the next one has its own.
    for job in jobs:
        if job.stage is Stage.STOPPED and not job.stays:
            yield Start(job=job)
        elif job.stage is Stage.LOST and not job.stays:
            yield Renew(job=job)


def _over(
    minutes: Mapping[str, float], holds: Mapping[str, datetime], jobs: list[Job], oldest: datetime
) -> list[str]:
    """The capacities that are held back without need.

    Args:
        oldest: Time since when a capacity may be held back at most.
    """
    searching = any(job.stage is not Stage.PLACED for job in jobs)
    if not searching or holds.keys() >= minutes.keys():
        return list(holds)
    return [capacity for capacity, since in holds.items() if since <= oldest]


def _release(capacity: str) -> Release:
    return Release(capacity=capacity)
