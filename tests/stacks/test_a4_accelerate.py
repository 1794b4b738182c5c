"""What must hold of the a4-accelerate stack, on the real engine."""

from typing import Any

from engine.plan import Plan
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
