"""What must hold of the a4-ray stack, on the real engine."""

from collections.abc import Callable
from pathlib import Path

from engine.plan import Plan
from tests import plans

STACK = "a4-ray"
ROOT = Path(__file__).parent.parent.parent


# Pods


def test_a_job_has_a_head_workers_and_a_submitter(plan: Plan) -> None:
    named = {name.split("/")[1] for name, _ in plans.containers(plan)}
    assert named == {"ray-head", "ray-worker", "ray-job-submitter"}


# Capacity


def test_as_many_processes_are_started_as_there_are_gpus(plan_with: Callable[..., Plan]) -> None:
    spec = plans.only(plan_with(workers="3"), ":ray.io/v1:RayJob").inputs["spec"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (3, 3, 3)


# Jobs and clusters


def test_a_job_brings_its_own_ray_cluster_and_takes_it_down(plan: Plan) -> None:
    spec = plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert "clusterSelector" not in spec
    assert not plans.of_type(plan, ":ray.io/v1:RayCluster")


def test_a_shared_ray_cluster_outlives_its_jobs(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with(rayCluster="shared")
    cluster = plans.only(plan, ":ray.io/v1:RayCluster")
    spec = plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]
    assert spec["clusterSelector"] == {"ray.io/cluster": cluster.inputs["metadata"]["name"]}
    assert spec["backoffLimit"] == 0
    assert not {"rayClusterSpec", "shutdownAfterJobFinishes"} & set(spec)
