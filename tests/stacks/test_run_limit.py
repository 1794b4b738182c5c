"""A forgotten run ends by itself: what `maxRunHours` makes of every scenario."""

from typing import Any

import pytest

from engine.plan import Plan
from rehearsal import Rehearsal
from tests import plans

# The fine-tune of each scenario on GKE.
JOBS = {
    "a4-ray": "ray.io/v1:RayJob",
    "a4-accelerate": ":batch/v1:Job",
    "l4-kueue": ":batch/v1:Job",
    "tpu-maxtext": "ray.io/v1:RayJob",
}
# Accelerator nodes that the stack makes itself, and nodes that everything else runs on.
POOLS = {
    "l4-kueue": ("l4-kueue-l4-pool", "l4-kueue-system-pool"),
    "tpu-maxtext": ("tpu-maxtext-slice-pool", "tpu-maxtext-head-pool"),
}


def plan_with(stack: str, **overrides: str) -> Plan:
    with Rehearsal(stack, {"imageUri": plans.IMAGE, **overrides}) as rehearsal:
        return rehearsal.preview()


def job(stack: str, plan: Plan) -> dict[str, Any]:
    return plans.only(plan, JOBS[stack]).inputs["spec"]


@pytest.mark.parametrize("stack", JOBS)
def test_a_job_on_gke_is_ended(stack: str) -> None:
    assert job(stack, plan_with(stack, maxRunHours="2"))["activeDeadlineSeconds"] == 7200


def test_without_a_limit_nothing_is_ended_nor_taken_away() -> None:
    plan = plan_with("l4-kueue")
    assert "activeDeadlineSeconds" not in job("l4-kueue", plan)
    assert "maxRunDuration" not in plans.named(plan, "l4-kueue-l4-pool").inputs["nodeConfig"]


@pytest.mark.parametrize("stack", POOLS)
def test_accelerator_nodes_are_taken_away_and_the_others_stay(stack: str) -> None:
    plan = plan_with(stack, maxRunHours="12")
    taken, staying = (plans.named(plan, name).inputs["nodeConfig"] for name in POOLS[stack])
    assert taken["maxRunDuration"] == "43200s"
    assert "maxRunDuration" not in staying


@pytest.mark.parametrize(("hours", "tries"), [("1", 1), ("2", 2), ("100", 3)])
def test_the_tries_of_a_cloud_run_job_fit_into_the_limit(hours: str, tries: int) -> None:
    plan = plan_with("cloudrun-vllm", maxRunHours=hours)
    task = plans.only(plan, "cloudrunv2/job:Job").inputs["template"]["template"]
    assert task["timeout"] == "3600s"
    assert task.get("maxRetries", 0) == tries - 1
