"""What settings make of the a4-ray stack, on the real engine. Its plan as it is: tests/inventories."""

from collections.abc import Callable

from engine.plan import Plan
from tests import plans

STACK = "a4-ray"


def test_as_many_processes_are_started_as_there_are_gpus(plan_with: Callable[..., Plan]) -> None:
    spec = plans.only(plan_with(workers="3"), ":ray.io/v1:RayJob").inputs["spec"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (3, 3, 3)


def test_upgrades_that_are_no_longer_held_lose_the_exclusion_and_keep_the_policy(
    plan_with: Callable[..., Plan],
) -> None:
    # The provider keeps the exclusions of a cluster whose policy is taken away.
    policy = plans.only(plan_with(holdUpgrades="false"), ":Cluster").inputs["maintenancePolicy"]
    assert policy["recurringWindow"]
    assert not policy["maintenanceExclusions"]


def test_open_egress_leaves_the_policy_for_egress_out_and_keeps_those_for_ingress(
    plan_with: Callable[..., Plan],
) -> None:
    policies = plans.of_type(plan_with(egress="open"), ":NetworkPolicy")
    assert {policy.name for policy in policies} == {
        "a4-ray-ingress-from-inside",
        "a4-ray-ingress-from-platform",
        "a4-ray-ingress-to-metrics",
    }


def test_a_shared_ray_cluster_outlives_its_jobs(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with(rayCluster="shared")
    cluster = plans.only(plan, ":ray.io/v1:RayCluster")
    spec = plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]
    assert spec["clusterSelector"] == {"ray.io/cluster": cluster.inputs["metadata"]["name"]}
    assert spec["backoffLimit"] == 0
    assert not {"rayClusterSpec", "shutdownAfterJobFinishes"} & set(spec)
