"""`preflight` asks for accelerators where their kind of capacity is: quotas and reservations."""

import re
from dataclasses import replace

import pytest

from bootstrap import roles
from cloud.services.container import CLUSTER, NODE_POOL
from engine.project import ROOT
from operations.checks.quotas import needs_of
from operations.findings import Level
from operations.plan import StackPlan
from tests.neutral_stacks import NEUTRAL
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject
from tests.operations.google_server import REFUSED

OK, PROBLEM = Level.FINE, Level.PROBLEM
RESERVATION = "my-reservation"
RESERVING = (NEUTRAL, "capacity.type=reservation", f"capacity.reservation={RESERVATION}")
RESERVED = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": [RESERVATION]}


def pool(plan: StackPlan, machine: str, **node: object) -> StackPlan:
    """The plan of a pool of 4 such machines alone."""
    config = {"machineType": machine, **node}
    inputs = {"nodeConfig": config, "nodeCount": 4, "nodeLocations": ["us-central1-b"]}
    resource = next(iter(plan.resources))
    return replace(plan, resources=(replace(resource, type=NODE_POOL.type, name="pool", inputs=inputs),))


@pytest.mark.parametrize(
    ("machine", "node", "quota"),
    [
        ("a4-highgpu-8g", {}, "gpus_per_gpu_family NVIDIA_B200 in us-central1: 32 needed, limit 16"),
        ("ct6e-standard-4t", {}, "tpus_per_tpu_family CT6E in us-central1: 16 needed, limit 16"),
        ("ct6e-standard-4t", {"spot": True}, "preemptible_tpu_v6e in us-central1: 16 needed, limit 16"),
        ("ct6e-standard-4t", {"flexStart": True}, "preemptible_tpu_v6e in us-central1: 16 needed, limit 16"),
    ],
)
def test_accelerators_are_looked_up_where_their_kind_of_capacity_is(
    machine: str, node: dict[str, object], quota: str, good: GoodProject, check: Check
) -> None:
    findings = check(pool(good.plan(NEUTRAL), machine, **node), "quotas")
    (finding,) = [finding for finding in findings if "all_regions" not in finding.what]
    assert finding.what.startswith(f"compute.googleapis.com/{quota}")
    assert finding.level is (PROBLEM if "32" in quota else OK)


@pytest.mark.parametrize(
    ("machine", "node", "wanted"),
    [
        (
            "g2-standard-24",
            {},
            {"cpus": 96, "cpus_all_regions": 96, "nvidia_l4_gpus": 8, "gpus_all_regions": 8},
        ),
        (
            "g2-standard-24",
            {"spot": True},
            {"cpus": 96, "cpus_all_regions": 96, "preemptible_nvidia_l4_gpus": 8},
        ),
        ("n2-standard-8", {}, {"n2_cpus": 32, "cpus_all_regions": 32}),
        ("a3-highgpu-8g", {}, {"gpus_per_gpu_family": 32, "gpus_all_regions": 32}),
        ("ct6e-standard-4t", {}, {"tpus_per_tpu_family": 16}),
        ("a3-highgpu-1g", {"flexStart": True}, {"preemptible_nvidia_h100_gpus": 4}),
        ("a3-ultragpu-8g", {"spot": True}, {"preemptible_nvidia_h200_gpus": 32}),
        ("g4-standard-48", {}, {"gpus_per_gpu_family": 4, "gpus_all_regions": 4}),
        (
            "a2-highgpu-1g",
            {},
            {"a2_cpus": 48, "cpus_all_regions": 48, "nvidia_a100_gpus": 4, "gpus_all_regions": 4},
        ),
        ("g2-standard-24", {"reservationAffinity": RESERVED}, {}),
    ],
)
def test_cpus_count_where_those_of_their_family_do_and_in_all_regions_together_but_not_reserved_ones(
    machine: str, node: dict[str, object], wanted: dict[str, int], good: GoodProject
) -> None:
    needs = needs_of(pool(good.plan(NEUTRAL), machine, **node))
    assert {quota.metric: need for quota, need in needs.items()} == wanted


@pytest.mark.parametrize(("location", "zones"), [("us-central1", 3), ("us-central1-a", 1)])
def test_a_standard_cluster_s_first_pool_counts_only_where_it_is_larger_than_those_that_follow_it(
    location: str, zones: int, good: GoodProject
) -> None:
    plan = pool(good.plan(NEUTRAL), "e2-standard-4", diskSizeGb=50)
    inputs = {"location": location, "initialNodeCount": 1, "removeDefaultNodePool": True}
    cluster = replace(plan.resources[0], type=CLUSTER.type, name="cluster", inputs=inputs)
    needs = needs_of(replace(plan, resources=(*plan.resources, cluster)))
    finding = {quota.metric: need for quota, need in needs.items()}
    assert finding == {"cpus": 16, "cpus_all_regions": 16, "ssd_total_storage": max(200, 100 * zones)}


def test_a_reservation_has_taken_its_quota_already(good: GoodProject, check: Check) -> None:
    plan = pool(good.plan(*RESERVING), "g2-standard-12", reservationAffinity=RESERVED)
    assert check(plan, "quotas") == []
    assert "has 3 free machines, and 4 are needed by pool" in check(plan, "reservation")[0].what


@pytest.mark.parametrize(("machine", "key"), [("a4-highgpu-8g", "zones"), ("ct6e-standard-4t", "zone")])
def test_a_reservation_in_another_zone_than_the_nodes_is_told_with_the_stacks_own_key(
    machine: str, key: str, good: GoodProject, check: Check
) -> None:
    plan = pool(good.plan(*RESERVING), machine, reservationAffinity={"values": [RESERVATION]})
    good.reservation(machine=machine, count=9, zone="zones/us-central1-a")
    (finding,) = check(plan, "reservation")
    assert finding.what.endswith("is in us-central1-a, the nodes are in us-central1-b")
    assert finding.remedy == f"pulumi config set {key} us-central1-a --stack neutral"


def test_who_may_not_look_at_the_reservation_is_told_the_role_of_the_first_page(
    good: GoodProject, check: Check
) -> None:
    plan = good.plan(*RESERVING)
    good.server.fail("compute.v1", "compute.reservations.aggregatedList", REFUSED)
    (finding,) = check(plan, "reservation")
    (role,) = re.findall(r"ask for (\S+) on the project", finding.remedy)
    assert role in roles.DEPLOY and role in (ROOT / "docs" / "first-run.md").read_text()
