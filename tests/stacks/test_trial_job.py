"""The Job that tries a recipe on a CPU: what waits for it, and what it has in common with the training."""

import json
from typing import Any, Final

import pytest

from engine.plan import Plan, Planned
from shared.exit_codes import Exit
from tests import plans
from trial.__main__ import make_parser

TRYING: Final = plans.stacks_with("trial")
# What is on nodes with accelerators, or asks for them.
ACCELERATED: Final = ("nvidia.com/gpu", "google.com/tpu")


def job_of(stack: str, plan: Plan) -> Planned:
    return plans.named(plan, f"{stack}-trial-job")


def name_of(job: Planned) -> str:
    """The name of an object, which has a digest of its content."""
    return job.inputs["metadata"]["name"]


def pod_of(resource: Planned) -> dict[str, Any]:
    return resource.inputs["spec"]["template"]["spec"]


@pytest.mark.parametrize("stack", TRYING)
def test_what_trains_waits_for_the_trial_and_the_rest_does_not(stack: str) -> None:
    plan = plans.shipped(stack)
    trial = job_of(stack, plan)
    assert "pulumi.com/skipAwait" not in trial.inputs["metadata"].get("annotations", {})
    trained, waiting = plans.training(plan), set()
    for resource in plan.resources:
        if ":components:" not in resource.type and trial in plans.awaited(plan, resource):
            waiting.add(resource.name)
    assert waiting == {trained.name}


def test_a_shared_ray_cluster_waits_for_the_trial() -> None:
    plan = plans.shipped("a4-ray", rayCluster="shared")
    assert job_of("a4-ray", plan) in plans.awaited(plan, plans.named(plan, "a4-ray-ray-cluster"))


@pytest.mark.parametrize("stack", TRYING)
def test_the_trial_needs_no_accelerator(stack: str) -> None:
    plan = plans.shipped(stack)
    trial = job_of(stack, plan)
    assert not any(name in json.dumps(trial.inputs) for name in ACCELERATED)
    assert not any(is_gpu_pool(resource) for resource in plans.awaited(plan, trial))
    # It takes nothing of a queue.
    assert "labels" not in trial.inputs["metadata"]


def is_gpu_pool(resource: Planned) -> bool:
    return resource.type.endswith("container/nodePool:NodePool") and plans.is_accelerated(resource)


@pytest.mark.parametrize("stack", TRYING)
def test_the_trial_has_the_image_code_rows_and_tokens_of_the_training(stack: str) -> None:
    """A bucket is not known in a first plan."""
    plan = plans.standing_plan(plans.standing(stack))
    pod, (trained, *_) = pod_of(job_of(stack, plan)), pods_that_train(plan)
    (container,), trainer = pod["containers"], trained["containers"][0]
    assert container["image"] == trainer["image"]
    assert pod["serviceAccountName"] == trained["serviceAccountName"]
    assert secrets(container) == secrets(trainer) != []
    options = make_parser().parse_args(container["args"])
    assert {options.run} == plans.runs(plan)
    assert f"gs://{options.storage.removeprefix('gs://')}" in plans.text(plan)
    sources = [source["configMap"] for volume in pod["volumes"] for source in sources_of(volume)]
    code, own = (paths(source) for source in sources)
    assert f"finetune/recipes/{options.recipe}.yaml" in code and "finetune/__main__.py" in code
    assert {path.partition("/")[0] for path in own} == {"trial"}
    trainers_code = [volume["name"] for volume in plans.values(plans.training(plan).inputs, "configMap")]
    assert sources[0]["name"] in trainers_code


def pods_that_train(plan: Plan) -> list[dict[str, Any]]:
    training = plans.training(plan)
    return [spec for resource, spec in plans.pods(plan) if resource == training]


def secrets(container: dict[str, Any]) -> list[str]:
    return [
        variable["name"] for variable in container["env"] if "secretKeyRef" in variable.get("valueFrom", {})
    ]


def sources_of(volume: dict[str, Any]) -> list[dict[str, Any]]:
    return volume.get("projected", {}).get("sources", [])


def paths(source: dict[str, Any]) -> list[str]:
    return [item["path"] for item in source["items"]]


@pytest.mark.parametrize("stack", TRYING)
def test_a_trial_that_fails_is_not_tried_again_and_says_why(stack: str) -> None:
    trial = job_of(stack, plans.shipped(stack))
    actions = {
        code: rule["action"]
        for rule in trial.inputs["spec"]["podFailurePolicy"]["rules"]
        for code in rule.get("onExitCodes", {}).get("values", ())
    }
    assert actions == {Exit.INTERRUPTED: "Ignore", Exit.BAD_INPUT: "FailJob"}
    (container,) = pod_of(trial)["containers"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize("stack", TRYING)
def test_without_a_trial_the_same_run_waits_for_none(stack: str) -> None:
    tried, plan = plans.shipped(stack), plans.shipped(stack, trial="false")
    gone = {resource.name for resource in tried.resources} - {resource.name for resource in plan.resources}
    assert gone == {f"{stack}-trial", f"{stack}-trial-job", f"{stack}-trial-code"}
    assert plans.runs(tried) == plans.runs(plan)
    assert name_of(plans.training(tried)) == name_of(plans.training(plan))


@pytest.mark.parametrize("stack", TRYING)
def test_an_unchanged_stack_is_not_tried_again_and_another_recipe_is(stack: str) -> None:
    trial = f"{stack}-trial-job"
    assert trial not in plans.changes(plans.planned_next(stack))
    changed = plans.changes(plans.planned_next(stack, recipeSet='{"training.seed": "7"}'))
    assert changed[trial] == "replace"
