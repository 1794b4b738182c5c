"""After any failure of a resource the next `up` or `destroy` succeeds, and nothing is left."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from typing import Final

import pytest

from engine.plan import Planned
from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import Item
from rehearsal.fakes.faults import KINDS, PARTIAL, Operation, kinds_of
from rehearsal.fakes.provider import change_by_hand
from rehearsal.session import Rehearsal
from tests import inventory, plans

# Stack, logical name, operation.
Place = tuple[str, str, Operation]
# Kinds of faults that differ only in what Google says.
REFUSALS: Final = [kind for kind in KINDS if kind not in ("orphan", PARTIAL)]
# The end of a name that Pulumi or its provider has chosen, or of a number that Google has.
AUTOMATIC: Final = re.compile(r"-[0-9a-f]{7,8}$|/\d{15,}$")


# Every type of resource, at every operation


def with_all_types() -> list[str]:
    """A few stacks that have every type of resource between them, by their inventories."""
    types = {
        stack: {line.partition(" ")[0] for line in inventory.written(stack)} for stack in sorted(plans.STACKS)
    }
    chosen: list[str] = []
    missing = set[str]().union(*types.values())
    while missing:
        chosen.append(max(types, key=lambda stack: len(types[stack] & missing)))
        missing -= types[chosen[-1]]
    return chosen


WITH_ALL_TYPES: Final = with_all_types()


@cache
def resources(stack: str) -> list[Planned]:
    """The resources of a stack that a provider creates, in an order that does not depend on the engine."""
    planned = plans.resources_of(plans.shipped(stack))
    created = [resource for resource in planned if not resource.type.startswith("pulumi:")]
    return sorted(created, key=lambda resource: (resource.type, resource.name))


def is_updatable(resource: Planned) -> bool:
    """Whether an `up` updates the resource after somebody has changed it by hand."""
    is_dynamic = resource.type.startswith("pulumi-python:")
    return not is_dynamic and change_by_hand(Item(resource.type, "", resource.name, resource.inputs, {}))


def places_by_type(stacks: Iterable[str]) -> dict[str, list[Place]]:
    """Where resources of a type can fail in these stacks."""
    places: dict[str, list[Place]] = defaultdict(list)
    for stack in stacks:
        for resource in resources(stack):
            place = places[resource.type]
            place.append((stack, resource.name, "creation"))
            if is_updatable(resource):
                place.append((stack, resource.name, "update"))
            if "deletedWith" not in resource.options:
                place.append((stack, resource.name, "deletion"))
    return places


@pytest.fixture(scope="module")
def faults(pytestconfig: pytest.Config) -> dict[Place, list[str]]:
    """Kinds of faults by place: a type's kinds take turns at its places.

    A type meets one of the refusals, with `--slow` every one, and in every stack. They come first: a resource
    exists after the other kinds, and is not created again.
    """
    faults: dict[Place, list[str]] = defaultdict(list)
    turns, is_slow = cycle(REFUSALS), pytestconfig.getoption("--slow")
    for type_, places in places_by_type(plans.STACKS if is_slow else WITH_ALL_TYPES).items():
        refusals = REFUSALS if is_slow else [next(turns)]
        others = [kind for kind in kinds_of(type_) if kind not in REFUSALS]
        for kind, place in zip([*refusals, *others], cycle(places), strict=False):
            faults[place].append(kind)
    return faults


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.mostly_slow(plans.STACKS, quick=WITH_ALL_TYPES))
def test_the_next_up_or_destroy_repairs_every_failure(
    stack: str, faults: dict[Place, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creations, updates of what somebody has changed by hand, and deletions fail."""
    monkeypatch.setenv("PULUMI_CONTINUE_ON_ERROR", "true")
    with Rehearsal(stack) as rehearsal:
        add_faults(rehearsal, faults, "creation")
        repeat_until_it_succeeds(rehearsal, rehearsal.up)
        add_faults(rehearsal, faults, "update")
        for item in rehearsal.cloud.items:
            if (stack, item.name, "update") in faults:
                change_by_hand(item)
        rehearsal.refresh()
        repeat_until_it_succeeds(rehearsal, rehearsal.up)
        assert rehearsal.preview().changed == 0
        rehearsal.release()
        add_faults(rehearsal, faults, "deletion")
        repeat_until_it_succeeds(rehearsal, rehearsal.destroy)
        # A resource whose creation had no answer is not in the state. One with an automatic name stays.
        assert not [item.id for item in rehearsal.cloud.items if not AUTOMATIC.search(item.id.split("@")[0])]


def add_faults(rehearsal: Rehearsal, faults: Mapping[Place, list[str]], operation: Operation) -> None:
    """Adds the faults of the rehearsal's stack at an operation."""
    for (stack, name, at), kinds in faults.items():
        if (stack, at) == (rehearsal.stack, operation):
            for kind in kinds:
                rehearsal.faults.add([name], kind=kind, at=operation)


def repeat_until_it_succeeds(rehearsal: Rehearsal, operation: Callable[[], object]) -> None:
    """Repeats an operation until every fault has struck, and deletes what a message says already exists."""
    message = run(rehearsal, operation)
    while message:
        message = run(rehearsal, operation)
    assert not rehearsal.faults.pending


def run(rehearsal: Rehearsal, operation: Callable[[], object]) -> str:
    """The message of an operation that fails. It names every resource that failed, with the reason."""
    before = len(rehearsal.faults.triggered)
    try:
        operation()
    except RehearsalError as error:
        message = str(error)
    else:
        return ""
    failures = rehearsal.faults.triggered[before:]
    for name, reason in failures:
        # The lines of a message begin with a blank, except the first.
        assert re.search(rf"{name}: (.|\n\s)*{re.escape(reason)}", message)
    existing = rehearsal.cloud.named_in(message)
    for item in existing:
        rehearsal.cloud.remove(item)
    # The answer to an update was lost, and with it the etag that the next one sends.
    if is_stale := "the etag is not the present one" in message:
        rehearsal.refresh()
    assert failures or existing or is_stale, message
    return message


def test_every_type_meets_every_kind_of_fault(
    faults: dict[Place, list[str]], pytestconfig: pytest.Config
) -> None:
    types = {(stack, resource.name): resource.type for stack in plans.STACKS for resource in resources(stack)}
    kinds_by_type: dict[str, set[str]] = defaultdict(set)
    for (stack, name, _), kinds in faults.items():
        kinds_by_type[types[stack, name]].update(kinds)
    assert kinds_by_type.keys() == {*types.values()}
    for type_, kinds in kinds_by_type.items():
        assert kinds >= {*kinds_of(type_)} - {*REFUSALS}
        assert kinds & {*REFUSALS}
        assert kinds == {*kinds_of(type_)} or not pytestconfig.getoption("--slow")
    assert set.union(*kinds_by_type.values()) == {*KINDS}


# One failure, and what must hold after it


@dataclass(frozen=True, kw_only=True)
class Case:
    """A resource that fails in the first `up`.

    Args:
        name: What must hold.
        stack: Its stack.
        resource: Its logical name.
        kind: The kind of the fault.
        reason: What Google says, if not the kind's own text.
        goes_on: Whether an `up` comes before the `destroy`. It must use what the first one created.
    """

    name: str
    stack: str
    resource: str
    kind: str = "refused"
    reason: str = ""
    goes_on: bool = False


CASES: Final = (
    Case(
        name="destroy cleans up after a cluster that failed",
        stack="a4-ray",
        resource="a4-ray-cluster",
    ),
    Case(
        name="destroy cleans up after an execution that failed",
        stack="cloudrun-vllm",
        resource="cloudrun-vllm-execution",
    ),
    Case(
        # The engine would create another bucket, because it may repeat what this refusal stopped.
        name="a bucket that exists and cannot be read yet is not created twice",
        stack="dev",
        resource="cloudrun-vllm-bucket",
        kind=PARTIAL,
        reason="googleapi: Error 403: it has not been used in project 1 before or it is disabled.",
        goes_on=True,
    ),
)


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_after_a_failure(case: Case) -> None:
    with Rehearsal(case.stack) as rehearsal:
        rehearsal.faults.add([case.resource], case.reason, kind=case.kind)
        with pytest.raises(RehearsalError, match=re.escape(case.reason) or case.resource):
            rehearsal.up()
        assert not rehearsal.faults.pending
        if case.goes_on:
            created = ids(rehearsal, case.resource)
            rehearsal.up()
            assert len(created) == 1
            assert ids(rehearsal, case.resource) == created
        rehearsal.remove()
        assert rehearsal.cloud.items == []


def ids(rehearsal: Rehearsal, name: str) -> list[str]:
    """The ids in the cloud of what has this logical name."""
    return [item.id for item in rehearsal.cloud.items if item.name == name]
