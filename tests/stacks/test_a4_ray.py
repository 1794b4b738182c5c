"""What settings make of the a4-ray stack, on the real engine. Its plan as it is: tests/inventories."""

from collections.abc import Callable

from engine.plan import Plan
from rehearsal.pods.policies import with_addresses
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


def test_pods_reach_googles_apis_and_the_hub_alone_where_a_company_wants_it(
    plan_with: Callable[..., Plan],
) -> None:
    plan, usual = plan_with(egress="googleAndHub"), plan_with()
    names = {policy.name for policy in plans.of_type(plan, ":NetworkPolicy")}
    assert "a4-ray-egress-to-platform" in names and "a4-ray-egress-to-https" not in names
    (rule,) = plans.only(plan, ":FQDNNetworkPolicy").inputs["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]
    assert {"name": "huggingface.co"} in rule["matches"]
    assert {"pattern": "*.googleapis.com"} in rule["matches"]
    # Hosts of the Hub on 2026-11-28: https://huggingface.co/docs/hub/models-downloading
    hosts = {
        *("huggingface.co", "cas-bridge.xethub.hf.co", "us.aws.cdn.hf.co", "us.gcp.cdn.hf.co"),
        *(f"{server}.xethub{place}.hf.co" for server in ("cas-server", "transfer") for place in ("", "-eu")),
        *("cdn-lfs.hf.co", "cdn-lfs-us-1.hf.co", "cdn-lfs-eu-1.hf.co", "cdn-lfs.huggingface.co"),
    }
    policy = {"metadata": {}, "spec": {"podSelector": {}, "egress": [rule]}}
    for host in hosts:
        admitted = with_addresses(policy, {host: "34.0.2.1"})["spec"]["egress"][0]["to"]
        assert admitted == [{"ipBlock": {"cidr": "34.0.2.1/32"}}], host
    for host in ("hf.co.example.com", "a.b.c.hf.co", "googleapis.com.example.com"):
        assert with_addresses(policy, {host: "34.0.2.1"})["spec"]["egress"][0]["to"] != [
            {"ipBlock": {"cidr": "34.0.2.1/32"}}
        ], host
    # Nothing runs before the policy is there.
    assert "a4-ray-egress-to-google-and-hub" in " ".join(plans.only(plan, "ray.io/v1:RayJob").dependencies)
    clusters = (plans.only(planned, "container/cluster:Cluster").inputs for planned in (plan, usual))
    assert [cluster.get("enableFqdnNetworkPolicy") for cluster in clusters] == [True, None]
    assert not plans.of_type(usual, ":FQDNNetworkPolicy")


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
