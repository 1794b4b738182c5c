"""Reservations and quotas: whether the machines of a plan can be had."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cloud.container import NODE_POOL
from engine.plan import Planned
from operations.findings import Level
from operations.plan import StackPlan
from tests.operations import good_project
from tests.operations.checking import check, good, levels, only
from tests.operations.google_server import (
    REFUSED,
    GoogleServer,
)
from tests.operations.planned import PROJECT, RESERVATION


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


# The reservation


def test_a_reservation_that_is_there_and_free_is_fine(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    assert (
        check(google, plan, "reservation")[0].what == "my-reservation in us-central1-b: 3 a4-highgpu-8g free"
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"name": "another"}, "no reservation my-reservation in project my-project"),
        ({"zone": "zones/us-east5-a"}, "in region us-central1, but in us-east5-a"),
        ({"status": "CREATING"}, "reservation my-reservation is CREATING"),
        (
            {
                "specificReservation": {
                    "count": "2",
                    "inUseCount": "1",
                    "instanceProperties": {"machineType": "a4-highgpu-8g"},
                }
            },
            "has 1 free machines, and a4-ray-ray-job needs 2",
        ),
        (
            {
                "specificReservation": {
                    "count": "9",
                    "instanceProperties": {"machineType": "a3-highgpu-8g"},
                }
            },
            "is for a3-highgpu-8g, and a4-ray-ray-job needs a4-highgpu-8g",
        ),
    ],
)
def test_a_reservation_that_cannot_be_consumed_is_told(
    google: GoogleServer, changes: dict[str, Any], what: str
) -> None:
    plan = good(google, "a4-ray")
    good_project.plant_reservation(google, **changes)
    assert what in only(check(google, plan, "reservation"), Level.PROBLEM).what


def test_a_reservation_that_others_may_take_is_a_warning(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    good_project.plant_reservation(google, specificReservationRequired=False)
    assert "others may take it" in only(check(google, plan, "reservation"), Level.WARNING).what


def test_a_reservation_of_another_project_must_be_shared_with_this_one(google: GoogleServer) -> None:
    plan = good(google, "a4-ray", f"capacity.reservation=projects/owner-project/reservations/{RESERVATION}")
    shared = {"shareType": "SPECIFIC_PROJECTS", "projectMap": {"42": {"projectId": PROJECT}}}
    good_project.plant_reservation(google, "owner-project", shareSettings=shared)
    assert levels(check(google, plan, "reservation")) == {Level.FINE}
    good_project.plant_reservation(google, "owner-project", shareSettings={"shareType": "LOCAL"})
    found = only(check(google, plan, "reservation"), Level.PROBLEM)
    assert "is not shared with my-project" in found.what
    assert "--add-share-with my-project" in found.remedy
    google.fail("compute.v1", "compute.reservations.aggregatedList", REFUSED)
    assert "may not look at" in only(check(google, plan, "reservation"), Level.UNKNOWN).what


# Quotas


@pytest.mark.parametrize(
    ("stack", "metric", "limit", "what"),
    [
        ("a4-accelerate", "preemptible_nvidia_b200_gpus", 7, "8 needed, limit 7"),
        ("dev", "cpu_allocation", 8000, "12 vCPU needed, limit 8 vCPU"),
        ("dev", "mem_allocation", 40 * 2**30, "48 GiB needed, limit 40 GiB"),
        ("dev", "nvidia_l4_gpu_allocation_no_zonal_redundancy", 1, "2 needed, limit 1"),
    ],
)
def test_a_quota_of_service_usage_that_is_too_small_is_told(
    google: GoogleServer, stack: str, metric: str, limit: int, what: str
) -> None:
    plan = good(google, stack)
    good_project.plant_quotas(google, **{metric: limit})
    found = only(check(google, plan, "quotas"), Level.PROBLEM)
    assert metric in found.what
    assert what in found.what
    assert "iam-admin/quotas?project=my-project" in found.remedy


def test_what_is_in_use_counts(google: GoogleServer) -> None:
    plan = good(google, "l4-kueue")
    quotas = {**good_project.REGIONAL_QUOTAS, "NVIDIA_L4_GPUS": (8.0, 3.0), "SSD_TOTAL_GB": (500.0, 0.0)}
    good_project.plant_region(google, quotas=quotas)
    found = [each.what for each in check(google, plan, "quotas") if each.level is Level.PROBLEM]
    assert found == [
        "compute.googleapis.com/nvidia_l4_gpus in us-central1: 6 needed, limit 8, 3 in use",
        "compute.googleapis.com/ssd_total_storage in us-central1: 700 GB needed, limit 500 GB, 0 GB in use",
    ]


def pool(plan: StackPlan, machine: str, **node: object) -> StackPlan:
    """The plan of a pool of 4 such machines alone."""
    resource = Planned(
        type=NODE_POOL.type,
        name="pool",
        urn="",
        parent="",
        op="create",
        inputs={
            "nodeConfig": {"machineType": machine, **node},
            "nodeCount": 4,
            "nodeLocations": ["us-central1-b"],
        },
        dependencies=(),
    )
    return replace(plan, resources=(resource,))


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
    google: GoogleServer, machine: str, node: dict[str, object], quota: str
) -> None:
    plan = pool(good(google, "a4-ray"), machine, **node)
    (found,) = check(google, plan, "quotas")
    assert found.what.startswith(f"compute.googleapis.com/{quota}")
    assert found.level is (Level.PROBLEM if "32" in quota else Level.FINE)


def test_a_reservation_has_taken_its_quota_already(google: GoogleServer) -> None:
    reserved = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": [RESERVATION]}
    plan = pool(good(google, "a4-ray"), "a4-highgpu-8g", reservationAffinity=reserved)
    assert check(google, plan, "quotas") == []
    assert "has 3 free machines, and pool needs 4" in check(google, plan, "reservation")[0].what


def test_the_gpus_that_cloud_run_grants_by_itself_are_a_warning(google: GoogleServer) -> None:
    plan = good(google, "dev")
    good_project.plant_quotas(google, nvidia_l4_gpu_allocation_no_zonal_redundancy=0)
    assert "grants 3 with the first deployment" in only(check(google, plan, "quotas"), Level.WARNING).what


def test_no_limit_is_fine_and_no_value_is_not_known(google: GoogleServer) -> None:
    plan = good(google, "dev")
    good_project.plant_quotas(google, cpu_allocation=-1)
    assert "run.googleapis.com/cpu_allocation: no limit" in [
        each.what for each in check(google, plan, "quotas")
    ]
    google.plant("serviceusage.v1beta1", "serviceusage.services.consumerQuotaMetrics.list", {})
    assert "Google lists no value" in check(google, plan, "quotas")[-2].what
