"""Whether the machines of a plan can be had, and what it takes from the Hugging Face Hub."""

from dataclasses import replace

import pytest

from cloud.container import NODE_POOL
from operations.checks.hub import repositories
from operations.findings import Level
from operations.plan import StackPlan
from tests.operations.conftest import Check
from tests.operations.good_project import METRICS, GoodProject, access
from tests.operations.google_server import REFUSED, Page
from tests.operations.planned import IMAGE, PROJECT, RESERVATION, planned

OK, PROBLEM, UNKNOWN = Level.FINE, Level.PROBLEM, Level.UNKNOWN


# Reservations and quotas


def test_a_reservation_of_another_project_must_be_shared_with_this_one(
    good: GoodProject, check: Check
) -> None:
    plan = good.plan("a4-ray", f"capacity.reservation=projects/owner-project/reservations/{RESERVATION}")
    shared = {"shareType": "SPECIFIC_PROJECTS", "projectMap": {"42": {"projectId": PROJECT}}}
    good.reservation("owner-project", shareSettings=shared)
    assert [each.level for each in check(plan, "reservation")] == [OK]
    good.reservation("owner-project", shareSettings={"shareType": "LOCAL"})
    (found,) = check(plan, "reservation")
    assert found.level is PROBLEM and "is not shared with my-project" in found.what
    assert "--add-share-with my-project" in found.remedy
    good.server.fail("compute.v1", "compute.reservations.aggregatedList", REFUSED)
    (found,) = check(plan, "reservation")
    assert found.level is UNKNOWN and "may not look at" in found.what


def pool(plan: StackPlan, machine: str, **node: object) -> StackPlan:
    """The plan of a pool of 4 such machines alone."""
    config = {"machineType": machine, **node}
    inputs = {"nodeConfig": config, "nodeCount": 4, "nodeLocations": ["us-central1-b"]}
    found = next(iter(plan.resources))
    return replace(plan, resources=(replace(found, type=NODE_POOL.type, name="pool", inputs=inputs),))


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
    (found,) = check(pool(good.plan("a4-ray"), machine, **node), "quotas")
    assert found.what.startswith(f"compute.googleapis.com/{quota}")
    assert found.level is (PROBLEM if "32" in quota else OK)


def test_a_reservation_has_taken_its_quota_already(good: GoodProject, check: Check) -> None:
    reserved = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": [RESERVATION]}
    plan = pool(good.plan("a4-ray"), "a4-highgpu-8g", reservationAffinity=reserved)
    assert check(plan, "quotas") == []
    assert "has 3 free machines, and pool needs 4" in check(plan, "reservation")[0].what


def test_no_limit_is_fine_and_no_value_is_not_known(good: GoodProject, check: Check) -> None:
    plan = good.plan("dev")
    good.quotas(cpu_allocation=-1)
    assert "run.googleapis.com/cpu_allocation: no limit" in [each.what for each in check(plan, "quotas")]
    good.server.plant("serviceusage.v1beta1", METRICS, {})
    assert "Google lists no value" in check(plan, "quotas")[-2].what


# The Hugging Face Hub


def test_a_stack_without_a_token_is_told_how_to_set_one(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    (found,) = check(good.plan("a4-ray"), "Hugging Face")
    assert (found.level, found.what) == (UNKNOWN, "the stack has no hfToken")
    assert "HF_TOKEN" in found.remedy


@pytest.mark.parametrize(
    ("stack", "names"),
    [
        ("a4-ray", {"google/gemma-3-4b-it", "philschmid/amazon-product-descriptions-vlm"}),
        ("dev", {"google/gemma-3-1b-it", "KomeijiForce/Text2Emoji"}),
        # A small one is trained, a large one served.
        (
            "l4-kueue",
            {"google/gemma-3-4b-it", "google/gemma-3-12b-it", "b-mc2/sql-create-context"},
        ),
    ],
)
def test_what_is_asked_of_the_hub_is_what_the_plan_trains_and_serves(stack: str, names: set[str]) -> None:
    assert {name for _, name in repositories(planned(stack))} == names


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("recipe=llama3-8b-fineweb-edu", "HuggingFaceFW/fineweb-edu"),
        ("dataset=hf://datasets/team/texts/*.parquet", "team/texts"),
    ],
)
def test_a_stack_without_a_token_has_its_public_data_set_looked_up(
    setting: str, name: str, good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    plan = planned("tpu-maxtext", f"imageUri={IMAGE}", setting)
    assert repositories(plan) == [("dataset", name)]
    good.hub(plan)
    assert [each.level for each in check(plan, "Hugging Face")] == [OK]
    missing = Page(code=404, content={}, headers={"X-Error-Code": "RepoNotFound"})
    good.server.plant_page(access("dataset", name), missing)
    (found,) = check(plan, "Hugging Face")
    assert found.what == f"there is no dataset {name}, or not for whoever has no token"


def test_a_stack_that_trains_on_made_up_data_needs_nothing_of_the_hub(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    plan = planned("tpu-maxtext", f"imageUri={IMAGE}")
    assert [finding.what for finding in check(plan, "Hugging Face")] == ["nothing of it is used"]
