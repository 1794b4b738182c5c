"""What settings make of the a4-accelerate stack, on the real engine. Its plan as it is: tests/inventories."""

from collections.abc import Callable

import pytest

from engine.plan import Plan
from tests import plans
from tests.stacks.configuration import A4_ACCELERATE, problems
from workloads.finetune.__main__ import make_parser

STACK = "a4-accelerate"


@pytest.mark.parametrize("nodes", [1, 2])
def test_every_node_has_a_pod_with_a_process_for_each_gpu_and_a_step_keeps_its_rows(
    nodes: int, plan_with: Callable[..., Plan]
) -> None:
    plan = plan_with(nodes=str(nodes))
    job = plans.training(plan).inputs
    (container,) = job["spec"]["template"]["spec"]["containers"]
    options = make_parser().parse_args([*container["command"][3:], *container["args"]])
    assert options.nodes == job["spec"]["completions"] == job["spec"]["parallelism"] == nodes
    assert options.processes == int(container["resources"]["limits"]["nvidia.com/gpu"]) == 8
    assert options.batch_for == 8
    service = plans.named(plan, f"{STACK}-finetune-service").inputs["metadata"]["name"]
    assert job["spec"]["template"]["spec"]["subdomain"] == service
    assert options.rendezvous == f"$(JOB_NAME)-0.{service}:29500"


def test_another_number_of_nodes_is_another_run_unless_a_run_may_be_resized(
    plan_with: Callable[..., Plan],
) -> None:
    def run(**settings: str) -> str:
        job = plans.training(plan_with(**settings)).inputs
        (container,) = job["spec"]["template"]["spec"]["containers"]
        return next(word for word in container["args"] if word.startswith("--run="))

    assert run(nodes="1") != run(nodes="2")
    assert run(nodes="1", resume="resize") == run(nodes="2", resume="resize")


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        (
            "3",
            "a step has 8 x 1 batches of 2, which 24 processes cannot share equally; choose another number "
            "of nodes, or set training.batch_size in recipeSet",
        ),
        ("0", "'0' is not a whole number from 1 to 64"),
    ],
)
def test_nodes_that_cannot_share_a_step_are_refused(nodes: str, problem: str) -> None:
    assert problems({**A4_ACCELERATE, "llm-stacks:nodes": nodes}) == [f"nodes: {problem}"]


def test_nodes_that_come_one_by_one_are_warned_of(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with(nodes="2", capacity_type="flexStart")
    assert any("you pay for the first ones while they wait" in line for line in plan.warnings)
