"""How long an `up` and a `destroy` take: computed from the plan, so that nobody waits.

An operation starts when what it waits for has ended, and takes the minutes that are known of its type. So the
result depends on the plan alone, neither on the machine nor on the order in which the engine happens to work.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from cloud.records import minutes
from engine.plan import Planned

# Packages whose resources take time. The rest is the engine's own: components, and the providers themselves.
_TIMED: Final = ("gcp:", "kubernetes:", "pulumi-python:")
_PROVIDERS: Final = "pulumi:providers:"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operation on one resource; it starts and ends so many minutes after the phase began."""

    urn: str
    name: str
    start: float
    end: float

    @property
    def minutes(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Phase:
    """An `up` or a `destroy`.

    Args:
        title: How it is shown.
        steps: Its operations.
        critical_path: Those that decide how long it takes, one after the other.
    """

    title: str
    steps: Sequence[Step]
    critical_path: Sequence[Step]

    @property
    def minutes(self) -> float:
        """How long it takes."""
        return max((step.end for step in self.steps), default=0.0)


def phases(resources: Iterable[Planned]) -> list[Phase]:
    """What a stack goes through from its first `up` to its `destroy`, from its whole plan."""
    found = {resource.urn: resource for resource in sorted(resources, key=lambda each: each.urn)}
    return [_up(found), _destroy(found)]


def can_fail(resource: Planned) -> bool:
    """Whether its creation can fail: that of a component, which only groups others, cannot."""
    return resource.type.startswith((*_TIMED, _PROVIDERS))


def _up(found: Mapping[str, Planned]) -> Phase:
    """The creation of everything; on the path each waited longest for the one before it."""

    @cache
    def step(urn: str) -> Step:
        resource = found[urn]
        start = max((step(other).end for other in resource.dependencies if other in found), default=0.0)
        end = start + minutes(resource.type, "create", resource.inputs)
        return Step(urn=urn, name=resource.name, start=start, end=end)

    steps = [step(urn) for urn in found]
    path: list[Step] = []
    last = max(steps, key=_end, default=None)
    while last:
        path.insert(0, last)
        before = (step(urn) for urn in found[last.urn].dependencies if urn in found)
        last = max(before, key=_end, default=None)
    return _phase("up", found, steps, path)


def _destroy(found: Mapping[str, Planned]) -> Phase:
    """The deletion of everything, in waves: none begins before the end of the one before.

    The waves are the engine's (`ScheduleDeletes` in pkg/resource/deploy/step_generator.go): the longer the
    chain of what a resource needs, the earlier it is deleted.
    """

    @cache
    def depth(urn: str) -> int:
        return max((depth(other) + 1 for other in _needed(found[urn]) if other in found), default=0)

    steps: list[Step] = []
    path: list[Step] = []
    start = 0.0
    for wave in sorted(set(map(depth, found)), reverse=True):
        here = [found[urn] for urn in found if depth(urn) == wave]
        deleted = [
            Step(urn=each.urn, name=each.name, start=start, end=start + _deletion(each, found))
            for each in here
        ]
        longest = max(deleted, key=_end)
        steps += deleted
        path.append(longest)
        start = longest.end
    return _phase("destroy", found, steps, path)


def _phase(title: str, found: Mapping[str, Planned], steps: Iterable[Step], path: Iterable[Step]) -> Phase:
    """A phase without the engine's own operations."""
    shown = [step for step in steps if found[step.urn].type.startswith(_TIMED)]
    return Phase(title=title, steps=shown, critical_path=[step for step in path if step.minutes])


def _needed(resource: Planned) -> set[str]:
    """URNs of what must outlive a resource."""
    return {*resource.dependencies, resource.parent, resource.options.get("deletedWith", "")}


def _deletion(resource: Planned, found: Mapping[str, Planned]) -> float:
    """What is `deleted_with` another resource is gone with that; nobody asks for its deletion."""
    if resource.options.get("deletedWith") in found:
        return 0.0
    return minutes(resource.type, "delete", resource.inputs)


def _end(step: Step) -> tuple[float, str]:
    """The later of two; of two at once always the same one."""
    return step.end, step.urn
