"""Computes from a plan how long `up` and `destroy` take.

An operation starts when everything that it waits for has ended, and takes the minutes of its type. So the
result depends on the plan alone, and not on the machine or on the engine's order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from cloud.records import minutes
from engine.plan import Planned

# Packages whose resources take time. Components and providers take none.
_TIMED: Final = ("gcp:", "kubernetes:", "pulumi-python:")
_PROVIDERS: Final = "pulumi:providers:"


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operation on a resource. Start and end are minutes after the beginning of the phase."""

    urn: str
    name: str
    start: float
    end: float

    @property
    def minutes(self) -> float:
        """Duration in minutes."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Phase:
    """An `up` or a `destroy`.

    Args:
        title: Its name, for a person.
        steps: Its operations.
        critical_path: The operations that decide its duration, one after the other.
    """

    title: str
    steps: Sequence[Step]
    critical_path: Sequence[Step]

    @property
    def minutes(self) -> float:
        """Duration in minutes."""
        return max((step.end for step in self.steps), default=0.0)


def phases(resources: Iterable[Planned]) -> list[Phase]:
    """The first `up` and the `destroy` of a stack, computed from its whole plan."""
    ordered = sorted(resources, key=lambda resource: resource.urn)
    by_urn = {resource.urn: resource for resource in ordered}
    return [_up(by_urn), _destroy(by_urn)]


def can_fail(resource: Planned) -> bool:
    """Whether the creation of a resource can fail. A component only groups resources and cannot fail."""
    return resource.type.startswith((*_TIMED, _PROVIDERS))


def _up(resources: Mapping[str, Planned]) -> Phase:
    """The creation of all resources. On the critical path, a step waits for the step before it."""

    @cache
    def step(urn: str) -> Step:
        resource = resources[urn]
        ends = [step(other).end for other in resource.dependencies if other in resources]
        start = max(ends, default=0.0)
        end = start + minutes(resource.type, "create", resource.inputs)
        return Step(urn=urn, name=resource.name, start=start, end=end)

    steps = [step(urn) for urn in resources]
    path: list[Step] = []
    last = max(steps, key=_end, default=None)
    while last:
        path.insert(0, last)
        before = [step(urn) for urn in resources[last.urn].dependencies if urn in resources]
        last = max(before, key=_end, default=None)
    return _phase("up", resources, steps, path)


def _destroy(resources: Mapping[str, Planned]) -> Phase:
    """The deletion of all resources, in waves: a wave begins at the end of the one before.

    The waves are the engine's (`ScheduleDeletes` in pkg/resource/deploy/step_generator.go). A resource with a
    longer chain of dependencies is deleted in an earlier wave.
    """

    @cache
    def depth(urn: str) -> int:
        depths = [depth(other) + 1 for other in _needed(resources[urn]) if other in resources]
        return max(depths, default=0)

    steps: list[Step] = []
    path: list[Step] = []
    start = 0.0
    for wave in sorted(set(map(depth, resources)), reverse=True):
        deletions = [
            Step(urn=urn, name=resource.name, start=start, end=start + _deletion(resource, resources))
            for urn, resource in resources.items()
            if depth(urn) == wave
        ]
        longest = max(deletions, key=_end)
        steps += deletions
        path.append(longest)
        start = longest.end
    return _phase("destroy", resources, steps, path)


def _phase(
    title: str, resources: Mapping[str, Planned], steps: Iterable[Step], path: Iterable[Step]
) -> Phase:
    """A phase without the operations that take no time."""
    timed = [step for step in steps if resources[step.urn].type.startswith(_TIMED)]
    return Phase(title=title, steps=timed, critical_path=[step for step in path if step.minutes])


def _needed(resource: Planned) -> set[str]:
    """URNs of the resources that are deleted after a resource."""
    return {*resource.dependencies, resource.parent, resource.options.get("deletedWith", "")}


def _deletion(resource: Planned, resources: Mapping[str, Planned]) -> float:
    """Minutes of a deletion. A resource that is `deleted_with` another one takes none."""
    if resource.options.get("deletedWith") in resources:
        return 0.0
    return minutes(resource.type, "delete", resource.inputs)


def _end(step: Step) -> tuple[float, str]:
    """A key to sort steps by their ends, and then by URN, so that the order is always the same."""
    return step.end, step.urn
