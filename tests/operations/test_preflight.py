"""Everything that a stack needs: found where it is there, told with its remedy where it is not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from operations import preflight
from operations.__main__ import main
from operations.checks import permissions
from operations.checks.hub import repositories
from operations.clients import Clients
from operations.findings import Finding, Level
from operations.machines import NODE_POOL
from operations.plan import StackPlan
from rehearsal import Planned
from rehearsal.project import known_stacks
from tests.operations import good_project
from tests.operations.google_server import (
    A_PAGE,
    CUT,
    EXHAUSTED,
    HALF,
    NOT_FOUND,
    REFUSED,
    SLOW,
    UNAVAILABLE,
    Fault,
    GoogleServer,
    Page,
)
from tests.operations.planned import IMAGE, PROJECT, RESERVATION, planned, planned_once

TOKEN = "hf_planted_in_a_test"


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)


def good(server: GoogleServer, stack: str, *settings: str) -> StackPlan:
    plan = planned(stack, *settings)
    good_project.plant(server, plan)
    return plan


def check(server: GoogleServer, plan: StackPlan, topic: str, timeout_s: float = 5.0) -> list[Finding]:
    clients = Clients(PROJECT, server.endpoint, timeout_s=timeout_s, pause=lambda _seconds: None)
    return preflight.check(topic, plan, clients)


def levels(findings: list[Finding]) -> set[Level]:
    return {finding.level for finding in findings}


def only(findings: list[Finding], level: Level) -> Finding:
    (found,) = [finding for finding in findings if finding.level is level]
    assert found.remedy or level is Level.FINE
    return found


# Nothing is wrong


@pytest.mark.parametrize("stack", known_stacks())
def test_a_project_that_has_everything_has_no_problem(google: GoogleServer, stack: str) -> None:
    plan = good(google, stack)
    for topic in preflight.CHECKS:
        found = check(google, plan, topic)
        assert not levels(found) & {Level.PROBLEM, Level.UNKNOWN}, found
        assert found or topic in ("reservation", "network"), topic


# The project


def test_a_project_that_is_not_there_is_told(google: GoogleServer) -> None:
    plan = good(google, "dev")
    google.fail("cloudresourcemanager.v3", "cloudresourcemanager.projects.get", REFUSED)
    found = only(check(google, plan, "project"), Level.PROBLEM)
    assert "no project my-project" in found.what
    assert "pulumi config set gcp:project" in found.remedy


def test_a_project_that_is_deleted_or_does_not_pay_is_told(google: GoogleServer) -> None:
    plan = good(google, "dev")
    good_project.plant_project(google, state="DELETE_REQUESTED")
    assert "DELETE_REQUESTED" in only(check(google, plan, "project"), Level.PROBLEM).what
    good_project.plant_project(google, billing=False)
    assert "gcloud billing projects link" in only(check(google, plan, "project"), Level.PROBLEM).remedy


def test_apis_that_are_not_enabled_are_a_warning_with_the_command(google: GoogleServer) -> None:
    plan = good(google, "dev")
    good_project.plant_apis(google, ["iam.googleapis.com", "storage.googleapis.com"])
    found = only(check(google, plan, "APIs"), Level.WARNING)
    assert "run.googleapis.com" in found.what
    assert "iam.googleapis.com" not in found.what
    assert found.remedy.startswith("gcloud services enable artifactregistry.googleapis.com")


# Permissions


def test_permissions_are_asked_one_by_one_and_the_role_that_has_them_is_named(google: GoogleServer) -> None:
    plan = good(google, "l4-kueue")
    good_project.plant_permissions(google, "container.clusters.create", "iam.serviceAccounts.actAs")
    found = [each for each in check(google, plan, "permissions") if each.level is Level.PROBLEM]
    assert [each.what for each in found] == [
        "missing: container.clusters.create",
        "missing: iam.serviceAccounts.actAs",
    ]
    assert found[0].remedy.endswith("--role roles/container.admin")


@pytest.mark.parametrize("stack", known_stacks())
def test_what_every_resource_needs_is_known(stack: str) -> None:
    needed = permissions.needed(planned(stack))
    assert "iam.serviceAccounts.actAs" in needed
    assert all(role.startswith("roles/") for role in needed.values())


# Region, zones, machines


def test_a_region_that_is_not_there_or_down_is_told(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    good_project.plant_region(google, status="DOWN")
    assert "us-central1 is DOWN" in only(check(google, plan, "places"), Level.PROBLEM).what
    google.fail("compute.v1", "compute.regions.get", NOT_FOUND)
    assert "no region us-central1" in only(check(google, plan, "places"), Level.PROBLEM).what


def test_a_region_without_the_machines_is_told_with_the_zones_that_have_them(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    good_project.plant_places(google, a4_zone="us-east5-a")
    found = only(check(google, plan, "places"), Level.PROBLEM)
    assert "no a4-highgpu-8g in us-central1-a, us-central1-b, us-central1-c" in found.what


def test_a_zone_without_the_machines_of_its_pool_is_told(google: GoogleServer) -> None:
    plan = good(google, "l4-kueue")
    items = {"zones/us-central1-c": {"machineTypes": [{"name": "g2-standard-24"}, {"name": "e2-standard-4"}]}}
    google.plant("compute.v1", "compute.machineTypes.aggregatedList", {"items": items})
    found = [each for each in check(google, plan, "places") if each.level is Level.PROBLEM]
    assert [each.what.partition(": ")[2] for each in found] == [
        "no g2-standard-24 in us-central1-a",
        "no e2-standard-4 in us-central1-a",
    ]
    assert "(us-central1-c)" in found[0].remedy


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
        type=NODE_POOL,
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


# Names


def test_a_bucket_of_somebody_else_is_told(google: GoogleServer) -> None:
    plan = good(google, "dev")
    assert "my-bucket" in only(check(google, plan, "names"), Level.FINE).what
    google.fail("storage.v1", "storage.buckets.get", REFUSED)
    assert "my-bucket belongs to somebody else" in only(check(google, plan, "names"), Level.PROBLEM).what


def test_what_is_there_already_is_told_and_what_is_this_stacks_own_is_a_warning(google: GoogleServer) -> None:
    plan = good(google, "dev")
    secret = {"name": "projects/1/secrets/dev-hugging-face-token", "labels": {"stack": "dev"}}
    google.plant("secretmanager.v1", "secretmanager.projects.secrets.get", secret)
    google.plant(
        "artifactregistry.v1", "artifactregistry.projects.locations.repositories.get", {"name": "images-dev"}
    )
    found = check(google, plan, "names")
    assert "secret dev-hugging-face-token is there already" in only(found, Level.WARNING).what
    assert "operations leftovers --stack dev" in only(found, Level.WARNING).remedy
    assert "repository images-dev" in only(found, Level.PROBLEM).what


# The network


def test_a_borrowed_subnet_must_be_there_and_fit(google: GoogleServer) -> None:
    plan = good(google, "cloudrun-vllm")
    assert levels(check(google, plan, "network")) == {Level.FINE}
    good_project.plant_subnet(google, privateIpGoogleAccess=False)
    assert "Private Google Access" in only(check(google, plan, "network"), Level.PROBLEM).what
    good_project.plant_subnet(google, ipCidrRange="10.9.0.0/28")
    assert "is a /28" in only(check(google, plan, "network"), Level.PROBLEM).what
    good_project.plant_subnet(google, nat=False)
    assert "no Cloud NAT" in only(check(google, plan, "network"), Level.PROBLEM).what
    google.fail("compute.v1", "compute.subnetworks.get", NOT_FOUND)
    assert "no subnet shared" in only(check(google, plan, "network"), Level.PROBLEM).what


def test_ranges_that_overlap_or_are_public_are_told(google: GoogleServer) -> None:
    plan = good(google, "l4-kueue")

    def with_range(pods: str) -> StackPlan:
        (subnet,) = plan.of_type("gcp:compute/subnetwork:Subnetwork")
        secondary = [{"rangeName": "pods", "ipCidrRange": pods}]
        changed = replace(subnet, inputs={**subnet.inputs, "secondaryIpRanges": secondary})
        return replace(plan, resources=(changed,))

    assert "overlap" in only(check(google, with_range("10.0.0.0/16"), "network"), Level.PROBLEM).what
    assert (
        "not a private range" in only(check(google, with_range("8.8.0.0/16"), "network"), Level.WARNING).what
    )


# The Hugging Face Hub


def test_a_token_that_is_not_accepted_is_told_and_never_shown(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    google.plant_page("huggingface/api/whoami-v2", Page(code=401, content={"error": "Invalid user token."}))
    found = only(check(google, plan, "Hugging Face"), Level.PROBLEM)
    assert "pulumi config set --secret hfToken" in found.remedy
    assert TOKEN not in found.what + found.remedy


def test_a_licence_that_was_not_accepted_is_told_with_its_page(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    gated = Page(code=403, content={}, headers={"X-Error-Code": "GatedRepo"})
    google.plant_page("huggingface/api/models/google/gemma-3-4b-it/auth-check", gated)
    found = only(check(google, plan, "Hugging Face"), Level.PROBLEM)
    assert found.what == "jane has not accepted the licence of model google/gemma-3-4b-it"
    assert "https://huggingface.co/google/gemma-3-4b-it" in found.remedy


def test_a_data_set_that_is_not_there_is_told(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    missing = Page(code=404, content={}, headers={"X-Error-Code": "RepoNotFound"})
    name = "philschmid/amazon-product-descriptions-vlm"
    google.plant_page(f"huggingface/api/datasets/{name}/auth-check", missing)
    assert f"there is no dataset {name}" in only(check(google, plan, "Hugging Face"), Level.PROBLEM).what


@pytest.mark.parametrize("code", [429, 503])
def test_a_hub_that_does_not_answer_is_no_verdict(google: GoogleServer, code: int) -> None:
    plan = good(google, "a4-ray")
    google.plant_page("huggingface/api/whoami-v2", Page(code=code, content={}))
    assert levels(check(google, plan, "Hugging Face")) == {Level.UNKNOWN}


def test_a_stack_without_a_token_is_told_how_to_set_one(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    found = only(check(google, good(google, "a4-ray"), "Hugging Face"), Level.UNKNOWN)
    assert found.what == "the stack has no hfToken"
    assert "HF_TOKEN" in found.remedy


@pytest.mark.parametrize(
    ("stack", "names"),
    [
        ("a4-ray", {"google/gemma-3-4b-it", "philschmid/amazon-product-descriptions-vlm"}),
        ("dev", {"google/gemma-3-1b-it", "KomeijiForce/Text2Emoji"}),
    ],
)
def test_what_is_asked_of_the_hub_is_what_the_plan_trains(stack: str, names: set[str]) -> None:
    assert {name for _, name in repositories(planned(stack))} == names


def test_the_model_that_is_served_is_asked_for_too() -> None:
    plan = planned("l4-kueue")
    assert ("model", "google/gemma-3-12b-it") in repositories(plan)


# Images


def test_an_image_that_its_registry_does_not_have_is_told(google: GoogleServer) -> None:
    plan = good(google, "dev")
    assert "exists" in only(check(google, plan, "images"), Level.FINE).what
    google.plant_page(good_project.manifest(), Page(code=404, content={}))
    assert "does not exist" in only(check(google, plan, "images"), Level.PROBLEM).what
    google.plant_page(good_project.manifest(), Page(code=500, content={}))
    assert "registry-1.docker.io answers with 500" in only(check(google, plan, "images"), Level.UNKNOWN).what


def test_an_image_in_artifact_registry_is_looked_up_there(google: GoogleServer) -> None:
    plan = good(google, "a4-accelerate")
    assert levels(check(google, plan, "images")) == {Level.FINE}
    method = "artifactregistry.projects.locations.repositories.dockerImages.get"
    google.fail("artifactregistry.v1", method, NOT_FOUND)
    assert f"{IMAGE} does not exist" in only(check(google, plan, "images"), Level.PROBLEM).what
    google.fail("artifactregistry.v1", method, REFUSED)
    assert "may not look" in only(check(google, plan, "images"), Level.UNKNOWN).what


# What is forgotten


def test_a_run_without_a_limit_is_a_warning_and_so_is_what_no_limit_ends(google: GoogleServer) -> None:
    found = check(google, replace(planned("l4-kueue"), configuration={}), "run limit")
    assert "maxRunHours is not set" in found[0].what
    assert [each.what for each in found[1:]] == [
        "l4-kueue-serving keeps 2 accelerators until it is destroyed",
        "l4-kueue-l4-pool keeps 3 g2-standard-24, used or not",
    ]
    (fine,) = check(google, planned("a4-ray"), "run limit")
    assert fine.what == "a run is ended after 4 hours"


# Google does not answer, or not as it should


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (REFUSED, "403 Permission denied"),
        (EXHAUSTED, "429 Quota exceeded"),
        (UNAVAILABLE, "503 The service"),
        (A_PAGE, "the answer is not JSON"),
        (HALF, "the answer is not JSON"),
        (CUT, "no answer|not JSON"),
        (SLOW, "no answer within"),
        (Fault(body=b'{"quotas": 3, "items": [], "permissions": 1, "services": 1}'), "not understood"),
    ],
    ids=["403", "429", "503", "page", "half", "cut", "slow", "wrong types"],
)
@pytest.mark.parametrize("topic", ["APIs", "permissions", "places", "reservation", "quotas"])
def test_a_question_without_an_answer_is_a_row_and_not_a_traceback(
    google: GoogleServer, topic: str, fault: Fault, text: str
) -> None:
    plan = good(google, "a4-ray")
    google.fail_all(fault)
    found = only(check(google, plan, topic, timeout_s=0.3), Level.UNKNOWN)
    assert any(part in found.what for part in text.split("|"))


def test_an_api_that_is_not_enabled_is_told_by_name(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    disabled = {
        "error": {
            "code": 403,
            "message": "Compute Engine API has not been used in project 1 before or it is disabled.",
            "status": "PERMISSION_DENIED",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "SERVICE_DISABLED",
                    "metadata": {"service": "compute.googleapis.com"},
                }
            ],
        }
    }
    google.fail("compute.v1", "compute.regions.get", Fault(code=403, body=json.dumps(disabled).encode()))
    found = only(check(google, plan, "places"), Level.UNKNOWN)
    assert found.remedy == "gcloud services enable compute.googleapis.com --project my-project"


# The command


def command(server: GoogleServer, stack: str, *more: str) -> int:
    with planned_once():
        return main(["preflight", "--stack", stack, "--endpoint", server.endpoint, *more])


def test_the_command_shows_all_findings_and_its_status_says_how_it_went(
    google: GoogleServer, capsys: pytest.CaptureFixture[str]
) -> None:
    good(google, "dev")
    assert command(google, "dev", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["stack"], shown["project"]) == ("dev", "my-project")
    assert {each["topic"] for each in shown["findings"]} >= {"project", "quotas", "images"}
    good_project.plant_project(google, billing=False)
    assert command(google, "dev") == 1
    printed = capsys.readouterr().out
    assert "billing" in printed
    assert "1 problem" in printed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--stack", "a5-ray"], "there is no stack a5-ray; known: a4-accelerate"),
        (["--stack", "dev"], "stack dev has no value for gcp:project: pulumi config set gcp:project VALUE"),
        (["--stack", "dev", "--set", "gcp:project=my-project", "--set", "maxRunHours=0"], "maxRunHours: '0'"),
        (["--stack", "dev", "--set", "nonsense"], "--set nonsense: write key=value"),
    ],
    ids=["no such stack", "no project", "bad setting", "bad option"],
)
def test_a_command_that_cannot_look_says_why_without_a_traceback(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preflight", *arguments]) == 2
    printed = capsys.readouterr()
    assert text in printed.err
    assert "Traceback" not in printed.err
    assert not printed.out


def test_a_google_that_nobody_is_behind_is_told_in_a_line(
    google: GoogleServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operations.clients._RETRIES", 0)
    google.fail_all(CUT)
    assert command(google, "dev") == 2
    printed = capsys.readouterr()
    assert "Google could not be asked: cloudresourcemanager.projects.get" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not printed.out
