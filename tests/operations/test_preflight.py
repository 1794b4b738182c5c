"""Everything that a stack needs: found where it is there, told with its remedy where it is not."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.project import known_stacks
from operations import preflight
from operations.__main__ import main
from operations.checks import permissions
from operations.findings import Level
from operations.plan import StackPlan
from tests.operations import good_project
from tests.operations.checking import check, good, levels, only
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
)
from tests.operations.planned import planned, planned_once

TOKEN = "hf_planted_in_a_test"


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)


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
        return main(["preflight", "--stack", stack, "--endpoint", server.address, *more])


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
