"""The way of a stack's job through a list of capacities, from its plan."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cloud.inputs import at, objects, texts
from engine.plan import Plan
from rehearsal.stock import FLEX_START, ON_DEMAND, RESERVATION, SPOT

_TRY: Final = re.compile(r"--try=(.+)=(\d+)")
# The capacities by the names that the keeper knows, which are names of Kubernetes.
_WORDS: Final = {"reservation": RESERVATION, "flex-start": FLEX_START, "spot": SPOT, "on-demand": ON_DEMAND}


@dataclass(frozen=True, kw_only=True)
class Try:
    """A capacity of the list.

    Args:
        capacity: As the setting `capacity.type` spells it.
        minutes: Time for which it is tried without machines. With 0 the next one comes at once.
    """

    capacity: str
    minutes: int


def tries_of(plan: Plan) -> list[Try]:
    """The capacities of the list, in their order. Empty if the stack has no list."""
    trees = {"keepers": _objects(plan, "Deployment"), "classes": _objects(plan, "ComputeClass")}
    arguments = texts(trees, "keepers[].spec.template.spec.containers[].args[]")
    watched = [match.groups() for argument in arguments if (match := _TRY.fullmatch(argument))]
    if watched:
        # A job that waits for all its nodes goes to no other capacity.
        listed = [(_WORDS[name], int(minutes)) for name, minutes in watched if name in _WORDS]
        return [Try(capacity=capacity, minutes=minutes) for capacity, minutes in listed]
    rules = objects(trees, "classes[].spec.priorities[]")
    return [Try(capacity=_capacity(rule), minutes=_wait(rule)) for rule in rules]


def way_through(tries: Sequence[Try], stockouts: Collection[str]) -> Iterator[str]:
    """How the job gets its nodes if some capacities have no machines, a line each."""
    start = 0
    for entry in tries:
        if entry.capacity not in stockouts:
            yield f"after {start} min: {entry.capacity} has machines"
            return
        gone = f"gives up after {entry.minutes} min" if entry.minutes else "goes on at once"
        yield f"after {start} min: {entry.capacity} has no machines, {gone}"
        start += entry.minutes
    yield f"after {start} min: no capacity is left, and the first is tried again"


def _objects(plan: Plan, kind: str) -> list[Mapping[str, Any]]:
    return [resource.inputs for resource in plan.resources if resource.inputs.get("kind") == kind]


def _capacity(rule: Mapping[str, Any]) -> str:
    if any(objects(rule, "reservations.specific[]")):
        return RESERVATION
    if any(at(rule, "flexStart.enabled")):
        return FLEX_START
    return SPOT if rule.get("spot") else ON_DEMAND


def _wait(rule: Mapping[str, Any]) -> int:
    """Minutes until GKE goes on to the next rule of a class. Only flex-start does not say at once."""
    return int(rule.get("capacityCheckWaitTimeSeconds", 0)) // 60
