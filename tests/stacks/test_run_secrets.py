"""The tokens of a stack that trains: who gets them, and what a new one replaces."""

import json
from typing import Any

import pytest

from engine.plan import Planned
from rehearsal.session import Rehearsal
from tests import plans

VERSION = "gcp:secretmanager/secretVersion:SecretVersion"
WITH_KEY = plans.stacks_with("wandbKey")


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize(
    "stack", plans.mostly_slow(["cloudrun-vllm", "a4-accelerate"], quick=["cloudrun-vllm"])
)
def test_a_new_token_replaces_the_old_one_every_time(stack: str) -> None:
    """For a moment both versions exist. Then the old one is deleted."""
    trainings: set[str] = set()
    with Rehearsal(stack) as rehearsal:
        for number in ("1", "2", "3"):
            tokens = {"hfToken": f"hf_{number}_of_somebody_else", "wandbKey": f"key_{number}_of_theirs" * 3}
            rehearsal.configure({"imageUri": plans.IMAGE, **tokens})
            rehearsal.up()
            versions = list(rehearsal.cloud.of_type(VERSION))
            assert {version.inputs["secretData"] for version in versions} == set(tokens.values())
            assert [version.outputs["version"] for version in versions] == [number, number]
            plan = plans.standing_plan(rehearsal)
            training = plans.training(plan).inputs
            trainings.add(json.dumps(training, sort_keys=True))
            # A Job on GKE names no version.
            names_version = plans.runs_on_cloud_run(plan)
            assert list(plans.values(training, "version")) == ([number, number] if names_version else [])
            assert not rehearsal.preview().changed
        assert len(trainings) == (3 if names_version else 1)
        rehearsal.remove()
        assert not rehearsal.cloud.items


@pytest.mark.parametrize("stack", plans.mostly_slow(WITH_KEY, quick=["cloudrun-vllm"]))
def test_only_containers_that_train_have_the_key_and_only_if_there_is_one(stack: str) -> None:
    """That the training runs again with it: test_runs.py."""
    assert "wandb-key" not in plans.text(plans.standing_plan(plans.standing(stack)))
    plan = plans.planned_next(stack, wandbKey="key_of_a_test" * 4)
    reader = "finetune" if plans.runs_on_cloud_run(plan) else "for-pods"
    assert {resource.name for resource in plan.resources if "wandb-key" in resource.name} == {
        f"{stack}-wandb-key",
        f"{stack}-wandb-key-version",
        f"{stack}-wandb-key-{reader}",
    }
    training = plans.training(plan)
    for resource in plan.resources:
        if resource.type.startswith(("kubernetes:", "gcp:cloudrun")):
            expected = containers_that_train(training) if resource is training else 0
            assert containers_with_key(resource.inputs) == expected, resource.name


def containers_with_key(inputs: Any) -> int:
    """How many containers have the variable for the key, with a value or a reference to one."""
    return json.dumps(inputs).count('{"name": "WANDB_API_KEY", "value')


def containers_that_train(training: Planned) -> int:
    """Ray's head and its workers are two containers."""
    return 2 if training.type.endswith(":RayJob") else 1
