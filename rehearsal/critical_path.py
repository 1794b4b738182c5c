"""Which chain of waiting decides how long an operation takes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.plan import dependencies
from engine.recorder import Interval

Waits = Mapping[str, Iterable[str]]


def waits_of(state: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What each resource of an exported state waits for."""
    resources = state["deployment"].get("resources") or ()
    return {resource["urn"]: dependencies(resource) for resource in resources}


def waves(intervals: Sequence[Interval]) -> dict[str, list[str]]:
    """The waiting of a deletion: the engine deletes in waves, each after the end of the one before."""
    return {
        step.urn: [other.urn for other in intervals if other.end <= step.start and other != step]
        for step in intervals
    }


def critical_path(intervals: Iterable[Interval], waits: Waits) -> list[Interval]:
    """The chain that ends last: from its end back, always to what was waited for longest.

    Args:
        intervals: The steps of one operation.
        waits: By URN, the URNs that a resource waited for.
    """
    by_urn = {interval.urn: interval for interval in intervals}
    path: list[Interval] = []
    step = max(by_urn.values(), key=lambda interval: interval.end, default=None)
    while step:
        path.append(step)
        awaited = [by_urn[urn] for urn in _reached(step.urn, waits, by_urn) if by_urn[urn] not in path]
        step = max(awaited, key=lambda interval: interval.end, default=None)
    return path[::-1]


def _reached(urn: str, waits: Waits, stops: Iterable[str]) -> set[str]:
    """The nearest URNs among `stops` that a resource waits for, through any others in between."""
    found: set[str] = set()
    seen: set[str] = {urn}
    ahead = list(waits.get(urn, ()))
    while ahead:
        other = ahead.pop()
        if other in seen:
            continue
        seen.add(other)
        if other in stops:
            found.add(other)
        else:
            ahead += waits.get(other, ())
    return found
