"""What another setting does with the run of a stack that trains, and how long a run may take."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from engine.plan import Plan
from operations.previews.stack_inputs import stack_file
from rehearsal.fakes.cloud import BUCKET
from rehearsal.session import Rehearsal
from tests import plans

STACKS: Final = plans.stacks_with("recipe")
ON_GKE: Final = plans.stacks_with("recipe", "clusterName")
ON_AUTOPILOT: Final = ["a4-accelerate", "a4-ray"]
# One of each kind of resource that trains.
QUICK: Final = ("a4-accelerate", "a4-ray", "cloudrun-vllm")
OTHER_IMAGE: Final = f"docker.io/team/finetune@sha256:{'b' * 64}"


# Another setting on a stack that is up


@dataclass(frozen=True, kw_only=True)
class Case:
    """Another setting, and what the next `up` does.

    Args:
        name: What must hold.
        settings: The setting, such as `capacity_type`.
        stacks: The stacks of which it holds.
        keeps_run: Whether the training goes on with its run. Else it begins another one.
        others: Operations that change other resources, by the ends of their types.
    """

    name: str
    settings: Mapping[str, str]
    stacks: list[str] = field(default_factory=lambda: STACKS)
    keeps_run: bool = True
    others: Mapping[str, set[str]] = field(default_factory=dict)


# Every one of these runs the training again.
CASES: Final = (
    Case(
        name="another image is another run",
        settings={"imageUri": OTHER_IMAGE},
        keeps_run=False,
    ),
    Case(
        name="nodes need no role for an image that is not in Artifact Registry",
        settings={"imageUri": OTHER_IMAGE},
        stacks=ON_GKE,
        keeps_run=False,
        others={":RepositoryIamMember": {"delete"}},
    ),
    Case(
        name="another bucket is empty, so the run begins from its first step",
        settings={"bucketName": "bucket-of-a-test"},
        others={"storage/bucket:Bucket": {"replace"}},
    ),
    Case(
        name="another limit of hours is the same run",
        settings={"maxRunHours": "100"},
    ),
    Case(
        name="a key of Weights & Biases is the same run",
        settings={"wandbKey": "key_of_a_test" * 4},
        stacks=plans.stacks_with("recipe", "wandbKey"),
    ),
    Case(
        name="other capacity on Autopilot is the same run on the same cluster",
        settings={"capacity_type": "spot"},
        stacks=ON_AUTOPILOT,
        others={"container/cluster:Cluster": set()},
    ),
)


def parameters() -> Iterator[Any]:
    """The cases of one stack after those of another: a stack is created once."""
    for stack in STACKS:
        for case in CASES:
            if stack in case.stacks:
                marks = [] if stack in QUICK else [pytest.mark.slow]
                yield pytest.param(stack, case, marks=marks, id=f"{stack}: {case.name}")


@pytest.mark.parametrize(("stack", "case"), [*parameters()])
def test_another_setting(stack: str, case: Case) -> None:
    before = plans.standing_plan(plans.standing(stack))
    after = plans.planned_next(stack, **case.settings)
    assert plans.run_once(after).op == "replace"
    assert plans.runs(before)
    if case.keeps_run:
        assert plans.runs(after) == plans.runs(before)
    else:
        assert plans.runs(after).isdisjoint(plans.runs(before))
    for ending, operations in case.others.items():
        assert changes(after, ending) == operations


def changes(plan: Plan, ending: str) -> set[str]:
    """The operations that change the resources of a type."""
    return {resource.op for resource in plans.of_type(plan, ending)} - {"same"}


# Capacity


# A Job on Autopilot, and a RayJob on a node pool.
@pytest.fixture(scope="module", params=plans.mostly_slow(ON_GKE, quick=["a4-accelerate", "tpu-maxtext"]))
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


def test_another_capacity_is_where_the_accelerators_come_from(
    stack: str, standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    """The other capacities: tests/components/test_capacity.py."""
    plan = next_plan(capacity_type="spot")
    if stack in ON_AUTOPILOT:
        selectors = [spec["nodeSelector"] for _, spec in plans.pods(plan) if "nodeSelector" in spec]
        assert {selector.get("cloud.google.com/gke-spot") for selector in selectors} == {"true"}
    else:
        pools = plans.of_type(plan, "container/nodePool:NodePool")
        (changed,) = [pool for pool in pools if pool.op in ("replace", "update")]
        assert changed.inputs["nodeConfig"]["spot"] is True
        assert plans.runs(plan) <= plans.runs(plans.standing_plan(standing))
        assert not changes(plan, "container/cluster:Cluster")


def test_spot_capacity_warns_how_little_time_a_run_has_to_save(next_plan: Callable[..., Plan]) -> None:
    warnings = next_plan(capacity_type="spot").warnings
    assert any(
        "its pods have at most 25 seconds, even with a longer grace period" in line for line in warnings
    )
    assert not next_plan().warnings


@pytest.mark.parametrize("stack", plans.mostly_slow(ON_GKE, quick=["a4-ray"]), indirect=True)
@pytest.mark.parametrize("capacity", ["spot", pytest.param("flexStart", marks=pytest.mark.slow)])
def test_every_word_of_a_command_that_is_known_in_advance_is_in_the_name_of_the_job(
    stack: str, capacity: str
) -> None:
    """These jobs have no deadline of Kubernetes, and their commands contain outputs."""
    settings = (
        {},
        {"maxRunHours": "8"},
        {"maxRunHours": "100"},
        {"bucketName": "one"},
        {"bucketName": "two"},
    )
    names = set()
    for setting in settings:
        plan = plans.shipped(stack, imageUri=plans.IMAGE, capacity_type=capacity, **setting)
        names.add(plans.training(plan).inputs["metadata"]["name"])
    own_hours = str(stack_file(stack).get("maxRunHours"))
    is_repeated = own_hours in ("8", "100")
    assert len(names) == len(settings) - is_repeated


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_a_bucket_that_somebody_deleted_comes_back_with_a_training(stack: str) -> None:
    """The new bucket has another automatic name, which nobody knows in advance."""
    with Rehearsal(stack, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        before = plans.run_once(plans.standing_plan(rehearsal))
        (bucket,) = rehearsal.cloud.of_type(BUCKET)
        rehearsal.cloud.remove(bucket)
        rehearsal.refresh()
        assert plans.run_once(rehearsal.preview()).op == "replace"
        rehearsal.up()
        assert ("create-replacement", before.name) in rehearsal.last.steps
        assert not rehearsal.preview().changed


# How long a run takes


# One of each kind of trainer.
@pytest.mark.parametrize(
    "stack",
    plans.mostly_slow(STACKS, quick=["a4-accelerate", "a4-ray", "cloudrun-vllm", "tpu-maxtext"]),
    indirect=True,
)
def test_a_run_knows_how_many_hours_it_may_train(
    stack: str, standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    own_hours = stack_file(stack).get("maxRunHours")
    assert hours_in_command(plans.standing_plan(standing)) == ([str(own_hours)] if own_hours else [])
    assert hours_in_command(next_plan(maxRunHours="100")) == ["100"]


def hours_in_command(plan: Plan) -> list[str]:
    """The limits in the commands of a plan's training."""
    return re.findall(r"--max-run-hours=(\d+)", str(plans.training(plan).inputs))


def test_a_run_that_does_not_end_itself_is_ended_and_its_accelerators_are_given_back(
    stack: str, standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    own_hours = stack_file(stack).get("maxRunHours")
    own_seconds = (int(own_hours) + 2) * 3600 if own_hours else None
    check_deadline(plans.standing_plan(standing), own_seconds)
    check_deadline(next_plan(maxRunHours="2"), 4 * 3600)


def check_deadline(plan: Plan, seconds: int | None) -> None:
    """Fails unless the training and its node pool have this limit."""
    assert plans.training(plan).inputs["spec"].get("activeDeadlineSeconds") == seconds
    pools = plans.of_type(plan, "container/nodePool:NodePool")
    nodes = [pool.inputs["nodeConfig"] for pool in pools]
    limits = [node["maxRunDuration"] for node in nodes if "maxRunDuration" in node]
    assert limits == ([f"{seconds}s"] if seconds and nodes else [])


def test_a_run_that_waits_for_machines_is_not_ended(next_plan: Callable[..., Plan]) -> None:
    spec = plans.training(next_plan(maxRunHours="2", capacity_type="spot")).inputs["spec"]
    assert "activeDeadlineSeconds" not in spec
