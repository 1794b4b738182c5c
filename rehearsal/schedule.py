"""How long an `up` and a `destroy` take: computed from the plan, so that nobody waits.

An operation starts when what it waits for has ended, and takes the minutes that are known of its type. So the
result depends on the plan alone, neither on the machine nor on the order in which the engine happens to work.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
        steps: Its operations, in the order in which they start.
        critical_path: Those that decide how long it takes, one after the other.
        failed: The operation that fails, if one does.
    """

    title: str
    steps: Sequence[Step]
    critical_path: Sequence[Step]
    failed: Step | None = None

    @property
    def minutes(self) -> float:
        """How long it takes."""
        return max((step.end for step in self.steps), default=0.0)


def phases(resources: Iterable[Planned], fail_at: str | None = None) -> list[Phase]:
    """What a stack goes through from its first `up` to its `destroy`.

    Args:
        resources: Its whole plan.
        fail_at: Logical name of a resource whose creation fails once; then there are two `up`.
    """
    found = {resource.urn: resource for resource in sorted(resources, key=lambda each: each.urn)}
    first = _created(found)
    if not fail_at:
        return [_phase("up", found, first), _destroy(found)]
    (failed,) = (step for urn, step in first.items() if step.name == fail_at and can_fail(found[urn]))
    # What has begun by then ends; nothing begins any more.
    begun = {urn: step for urn, step in first.items() if step.start < failed.end or step == failed}
    rest = _created(found, exists=begun.keys() - {failed.urn})
    failing = _phase(f"up that fails at {fail_at}", found, begun, failed)
    return [failing, _phase("up", found, rest), _destroy(found)]


def can_fail(resource: Planned) -> bool:
    """Whether its creation can fail: that of a component, which only groups others, cannot."""
    return resource.type.startswith((*_TIMED, _PROVIDERS))


def _created(found: Mapping[str, Planned], exists: Collection[str] = ()) -> dict[str, Step]:
    """The creation of everything that does not exist yet."""

    @cache
    def step(urn: str) -> Step:
        resource = found[urn]
        start = max((step(other).end for other in resource.dependencies if other in found), default=0.0)
        taken = 0.0 if urn in exists else minutes(resource.type, "create", resource.inputs)
        return Step(urn=urn, name=resource.name, start=start, end=start + taken)

    return {urn: step(urn) for urn in found if urn not in exists}


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
    return Phase(
        title="destroy", steps=_shown(found, steps), critical_path=[each for each in path if each.minutes]
    )


def _phase(
    title: str, found: Mapping[str, Planned], steps: Mapping[str, Step], failed: Step | None = None
) -> Phase:
    """A phase of creations; from its end back, each waited longest for the one before it on the path."""
    path: list[Step] = []
    last = max(steps.values(), key=_end, default=None)
    while last:
        path.insert(0, last)
        before = (steps[urn] for urn in found[last.urn].dependencies if urn in steps)
        last = max(before, key=_end, default=None)
    return Phase(
        title=title,
        steps=_shown(found, steps.values(), failed),
        critical_path=[step for step in path if step.minutes],
        failed=failed,
    )


def _shown(found: Mapping[str, Planned], steps: Iterable[Step], failed: Step | None = None) -> list[Step]:
    """The operations without the engine's own, in the order in which they start."""
    shown = (step for step in steps if step == failed or found[step.urn].type.startswith(_TIMED))
    return sorted(shown, key=lambda step: (step.start, step.end, step.urn))


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
