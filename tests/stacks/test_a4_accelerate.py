"""What must hold of the a4-accelerate stack, on the real engine."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.plan import Plan
from rehearsal import Rehearsal, RehearsalError
from tests import plans
from workloads.finetune.errors import EXIT_BAD_INPUT
from workloads.finetune.recipe import load_recipe

STACK = "a4-accelerate"
JOB = "kubernetes:batch/v1:Job"


def spec(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":batch/v1:Job").inputs["spec"]


def pod(plan: Plan) -> dict[str, Any]:
    return spec(plan)["template"]["spec"]


def container(plan: Plan) -> dict[str, Any]:
    (found,) = pod(plan)["containers"]
    return found


def options(plan: Plan) -> dict[str, str]:
    return dict(each.removeprefix("--").split("=", 1) for each in container(plan)["args"])


def test_one_pod_takes_the_whole_node_with_a_process_for_each_gpu(plan: Plan) -> None:
    assert container(plan)["resources"]["requests"]["nvidia.com/gpu"] == "8"
    assert options(plan)["processes"] == "8"
    assert pod(plan)["nodeSelector"]["cloud.google.com/gke-accelerator"] == "nvidia-b200"


@pytest.mark.parametrize(
    ("overrides", "selectors"),
    [
        ({"capacity_type": "spot"}, {"cloud.google.com/gke-spot": "true"}),
        ({"capacity_type": "flexStart"}, {"cloud.google.com/gke-flex-start": "true"}),
        (
            {"capacity_reservation": "b200"},
            {
                "cloud.google.com/reservation-affinity": "specific",
                "cloud.google.com/reservation-name": "b200",
            },
        ),
    ],
)
def test_the_pod_asks_for_the_capacity(
    overrides: dict[str, str], selectors: dict[str, str], plan_with: Callable[..., Plan]
) -> None:
    assert selectors.items() <= pod(plan_with(**overrides))["nodeSelector"].items()


def test_a_pre_empted_pod_is_tried_again_without_being_counted_and_bad_input_is_not(plan: Plan) -> None:
    rules = {rule["action"]: rule for rule in spec(plan)["podFailurePolicy"]["rules"]}
    assert rules["Ignore"]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert rules["FailJob"]["onExitCodes"] == {
        "containerName": container(plan)["name"],
        "operator": "In",
        "values": [EXIT_BAD_INPUT],
    }
    assert pod(plan)["restartPolicy"] == "Never"


def test_a_sigterm_leaves_time_for_the_checkpoint(plan: Plan) -> None:
    assert pod(plan)["terminationGracePeriodSeconds"] >= 300


def test_the_shipped_recipe_is_sharded_evaluated_and_saved_on_the_way(plan: Plan) -> None:
    recipe = load_recipe(options(plan)["recipe"])
    assert recipe.training.sharding == "fsdp2"
    assert recipe.data.rows == 10_000
    assert recipe.data.test_rows
    steps = recipe.data.rows // recipe.training.batch_size // 8
    assert recipe.training.save_every_steps < steps


def test_another_reservation_runs_the_job_again_and_resumes_its_run(plan_with: Callable[..., Plan]) -> None:
    before, after = (plan_with(capacity_reservation=name) for name in ("one", "two"))
    assert options(before)["run"] == options(after)["run"]
    names = {plans.only(each, ":batch/v1:Job").inputs["metadata"]["name"] for each in (before, after)}
    assert len(names) == 2


def test_another_image_is_another_run(plan: Plan, plan_with: Callable[..., Plan]) -> None:
    other = plan_with(imageUri=f"docker.io/team/finetune@sha256:{'b' * 64}")
    assert options(plan)["run"] != options(other)["run"]


def test_up_does_not_wait_for_the_training_unless_it_is_told_to(
    plan: Plan, plan_with: Callable[..., Plan]
) -> None:
    annotation = {"pulumi.com/skipAwait": "true"}
    metadata = plans.only(plan, ":batch/v1:Job").inputs["metadata"]
    assert metadata["annotations"] == annotation
    waiting = plans.only(plan_with(waitForTraining="true"), ":batch/v1:Job").inputs["metadata"]
    assert not waiting.get("annotations")


def test_up_that_waits_fails_with_the_training() -> None:
    with Rehearsal(STACK, {"imageUri": plans.IMAGE, "waitForTraining": "true"}) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        with pytest.raises(RehearsalError, match="a4-accelerate-job"):
            rehearsal.up()
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


def test_the_job_starts_when_everything_that_its_pod_uses_is_there(plan: Plan) -> None:
    job = plans.named(plan, f"{STACK}-job")
    needed = {
        "ingress-from-inside",
        "service-account",
        "hf-token-for-pods",
        "code",
        "finetune-objects",
        "finetune-metadata",
        "nat",
        "nodes-pull-images",
    }
    assert {f"{STACK}-{name}" for name in needed} <= plans.ancestors(plan, job)
