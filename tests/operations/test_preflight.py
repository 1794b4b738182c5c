"""Everything that a stack needs: found where it is there, told with its remedy where it is not."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.project import known_stacks
from operations import preflight
from operations.checks import permissions
from operations.findings import Level
from stacks import pins
from tests.operations.conftest import HF_TOKEN, Check, Command, Ran
from tests.operations.good_project import (
    MANAGER,
    WHOAMI,
    GoodProject,
    access,
    manifest,
)
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
from tests.operations.planned import IMAGE, planned, planned_once

GATED, MISSING = {"X_Error_Code": "GatedRepo"}, {"X_Error_Code": "RepoNotFound"}
MODEL, DATA = "google/gemma-3-4b-it", "philschmid/amazon-product-descriptions-vlm"
GPUS_OF_RUN = "nvidia_l4_gpu_allocation_no_zonal_redundancy"


@pytest.mark.parametrize("stack", known_stacks())
def test_a_project_that_has_everything_has_no_problem(stack: str, good: GoodProject, check: Check) -> None:
    plan = good.plan(stack)
    for topic in preflight.CHECKS:
        found = check(plan, topic)
        assert not {each.level for each in found} & {Level.PROBLEM, Level.UNKNOWN}, found
        assert found or topic in ("reservation", "network", "names"), topic


# What is not as it must be: how the project differs, and what a check then says, with its remedy.


Change = Callable[[GoodProject], object]


def nothing(project: GoodProject) -> None:
    """Leaves it as it must be."""


def failing(api: str, method: str, fault: Fault) -> Change:
    return lambda project: project.server.fail(api, method, fault)


def answering(path: str, code: int, **headers: str) -> Change:
    page = Page(code=code, content={}, headers={key.replace("_", "-"): text for key, text in headers.items()})
    return lambda project: project.server.plant_page(path, page)


OK, WARNING, PROBLEM, UNKNOWN = Level.FINE, Level.WARNING, Level.PROBLEM, Level.UNKNOWN
CHANGES: dict[tuple[str, str], list[tuple[Change, Level, str]]] = {
    ("dev", "project"): [
        (failing(MANAGER, "cloudresourcemanager.projects.get", REFUSED), PROBLEM, "no project my-project"),
        (failing(MANAGER, "cloudresourcemanager.projects.get", REFUSED), PROBLEM, "config set gcp:project"),
        (lambda it: it.project(state="DELETE_REQUESTED"), PROBLEM, "DELETE_REQUESTED"),
        (lambda it: it.project(billing=False), PROBLEM, "gcloud billing projects link"),
    ],
    ("a4-ray", "places"): [
        (lambda it: it.region("DOWN"), PROBLEM, "us-central1 is DOWN"),
        (failing("compute.v1", "compute.regions.get", NOT_FOUND), PROBLEM, "no region us-central1"),
        (lambda it: it.places("us-east5-a"), PROBLEM, "no a4-highgpu-8g in us-central1-a, us-central1-b"),
    ],
    ("dev", "names"): [
        (nothing, OK, "my-bucket"),
        (
            failing("storage.v1", "storage.buckets.get", REFUSED),
            PROBLEM,
            "my-bucket belongs to some",
        ),
    ],
    ("cloudrun-vllm", "network"): [
        (nothing, OK, "has room and a way out"),
        (lambda it: it.subnet(privateIpGoogleAccess=False), PROBLEM, "Private Google Access"),
        (lambda it: it.subnet(ipCidrRange="10.9.0.0/28"), PROBLEM, "is a /28"),
        (lambda it: it.subnet(nat=False), PROBLEM, "no Cloud NAT"),
        (failing("compute.v1", "compute.subnetworks.get", NOT_FOUND), PROBLEM, "no subnet shared"),
    ],
    ("a4-ray", "reservation"): [
        (nothing, OK, "my-reservation in us-central1-b: 3 a4-highgpu-8g free"),
        (
            lambda it: it.reservation(name="another"),
            PROBLEM,
            "no reservation my-reservation in project",
        ),
        (
            lambda it: it.reservation(zone="zones/us-east5-a"),
            PROBLEM,
            "us-central1, but in us-east5-a",
        ),
        (lambda it: it.reservation(status="CREATING"), PROBLEM, "reservation my-reservation is CREATING"),
        (lambda it: it.reservation(count=2), PROBLEM, "has 1 free machines, and a4-ray-ray-job needs 2"),
        (lambda it: it.reservation(machine="a3-highgpu-8g"), PROBLEM, "a4-ray-ray-job needs a4-highgpu-8g"),
        (lambda it: it.reservation(specificReservationRequired=False), WARNING, "others may take it"),
    ],
    ("a4-accelerate", "quotas"): [
        (
            lambda it: it.quotas(preemptible_nvidia_b200_gpus=7),
            PROBLEM,
            "8 needed, limit 7",
        ),
        (
            lambda it: it.quotas(preemptible_nvidia_b200_gpus=7),
            PROBLEM,
            "quotas?project=my-project",
        ),
    ],
    ("dev", "quotas"): [
        (
            lambda it: it.quotas(cpu_allocation=8000),
            PROBLEM,
            "12 vCPU needed, limit 8 vCPU",
        ),
        (lambda it: it.quotas(mem_allocation=40 * 2**30), PROBLEM, "48 GiB needed, limit 40 GiB"),
        (
            lambda it: it.quotas(**{GPUS_OF_RUN: 1}),
            PROBLEM,
            f"{GPUS_OF_RUN} in us-central1: 2 needed",
        ),
        (lambda it: it.quotas(**{GPUS_OF_RUN: 0}), WARNING, "grants 3 with the first deployment"),
    ],
    ("a4-ray", "Hugging Face"): [
        (answering(WHOAMI, 401), PROBLEM, "pulumi config set --secret hfToken"),
        (answering(WHOAMI, 429), UNKNOWN, "answers with 429"),
        (answering(WHOAMI, 503), UNKNOWN, "answers with 503"),
        (
            answering(access("model", MODEL), 403, **GATED),
            PROBLEM,
            "jane has not accepted the licence of model",
        ),
        (answering(access("model", MODEL), 403, **GATED), PROBLEM, f"https://huggingface.co/{MODEL}"),
        (answering(access("dataset", DATA), 404, **MISSING), PROBLEM, f"there is no dataset {DATA}"),
    ],
    ("dev", "images"): [
        (nothing, OK, "exists"),
        (answering(manifest(pins.VLLM_IMAGE), 404), PROBLEM, "does not exist"),
        (answering(manifest(pins.VLLM_IMAGE), 500), UNKNOWN, "registry-1.docker.io answers with 500"),
    ],
    ("a4-accelerate", "images"): [
        (nothing, OK, f"{IMAGE} exists"),
        (answering(manifest(IMAGE), 404), PROBLEM, f"{IMAGE} does not exist"),
        (answering(manifest(IMAGE), 403), UNKNOWN, "may not look"),
    ],
}


@pytest.mark.parametrize(
    ("stack", "topic", "change", "level", "words"),
    [(*where, *each) for where, several in CHANGES.items() for each in several],
)
def test_what_is_not_as_it_must_be_is_told_with_its_remedy(
    stack: str, topic: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(stack)
    change(good)
    (found,) = [finding for finding in check(plan, topic) if finding.level is level]
    assert words in f"{found.what}\n{found.remedy}"
    assert found.remedy or level is OK
    assert HF_TOKEN not in found.what + found.remedy


def test_apis_that_are_not_enabled_are_a_warning_with_the_command(good: GoodProject, check: Check) -> None:
    plan = good.plan("dev")
    good.apis(["iam.googleapis.com", "storage.googleapis.com"])
    (found,) = check(plan, "APIs")
    assert found.level is WARNING
    assert "run.googleapis.com" in found.what
    assert "iam.googleapis.com" not in found.what
    assert found.remedy.startswith("gcloud services enable artifactregistry.googleapis.com")


def test_permissions_are_asked_one_by_one_and_the_role_that_has_them_is_named(
    good: GoodProject, check: Check
) -> None:
    plan = good.plan("l4-kueue")
    good.permissions("container.clusters.create", "iam.serviceAccounts.actAs")
    found = check(plan, "permissions")
    assert [(each.level, each.what) for each in found] == [
        (PROBLEM, "missing: container.clusters.create"),
        (PROBLEM, "missing: iam.serviceAccounts.actAs"),
    ]
    assert found[0].remedy.endswith("--role roles/container.admin")


@pytest.mark.parametrize("stack", known_stacks())
def test_what_every_resource_needs_is_known(stack: str) -> None:
    needed = permissions.needed(planned(stack))
    assert "iam.serviceAccounts.actAs" in needed
    assert all(role.startswith("roles/") for role in needed.values())


def test_a_zone_without_the_machines_of_its_pool_is_told(good: GoodProject, check: Check) -> None:
    plan = good.plan("l4-kueue")
    types = [{"name": name, "zone": "us-central1-c"} for name in ("g2-standard-24", "e2-standard-4")]
    items = {"zones/us-central1-c": {"machineTypes": types}}
    good.server.plant("compute.v1", "compute.machineTypes.aggregatedList", {"items": items})
    found = [each for each in check(plan, "places") if each.level is PROBLEM]
    assert [each.what.partition(": ")[2] for each in found] == [
        "no g2-standard-24 in us-central1-a",
        "no e2-standard-4 in us-central1-a",
    ]
    assert "(us-central1-c)" in found[0].remedy


def test_what_is_there_already_is_told_and_what_is_this_stacks_own_is_a_warning(
    good: GoodProject, check: Check
) -> None:
    plan = good.plan("dev")
    secret = {"name": "projects/1/secrets/dev-hugging-face-token", "labels": {"stack": "dev"}}
    good.server.plant("secretmanager.v1", "secretmanager.projects.secrets.get", secret)
    repository = {"name": "images-dev"}
    method = "artifactregistry.projects.locations.repositories.get"
    good.server.plant("artifactregistry.v1", method, repository)
    found = {each.level: each for each in check(plan, "names")}
    assert "secret dev-hugging-face-token is there already" in found[WARNING].what
    assert "operations leftovers --stack dev" in found[WARNING].remedy
    assert "repository images-dev" in found[PROBLEM].what


def test_a_run_without_a_limit_is_a_warning_and_so_is_what_no_limit_ends(check: Check) -> None:
    found = check(replace(planned("l4-kueue"), configuration={}), "run limit")
    assert "maxRunHours is not set" in found[0].what
    assert [each.what for each in found[1:]] == [
        "l4-kueue-serving keeps 2 accelerators until it is destroyed",
        "l4-kueue-l4-pool keeps 3 g2-standard-24, used or not",
    ]
    (fine,) = check(planned("a4-ray"), "run limit")
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
    topic: str, fault: Fault, text: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan("a4-ray")
    good.server.fail_all(fault)
    (found,) = check(plan, topic)
    assert found.level is UNKNOWN and any(part in found.what for part in text.split("|"))


def test_an_api_that_is_not_enabled_is_told_by_name(good: GoodProject, check: Check) -> None:
    plan = good.plan("a4-ray")
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "metadata": {"service": "compute.googleapis.com"},
    }
    error = {"code": 403, "message": "it is disabled", "status": "PERMISSION_DENIED", "details": [info]}
    disabled = Fault(code=403, body=json.dumps({"error": error}).encode())
    good.server.fail("compute.v1", "compute.regions.get", disabled)
    (found,) = check(plan, "places")
    assert found.level is UNKNOWN
    assert found.remedy == "gcloud services enable compute.googleapis.com --project my-project"


# The command


@pytest.fixture
def run(google: GoogleServer, command: Command) -> Command:
    def run(stack: str, *words: str) -> Ran:
        with planned_once():
            return command("preflight", "--stack", stack, "--endpoint", google.address, *words)

    return run


def test_the_command_shows_all_findings_and_its_status_says_how_it_went(
    good: GoodProject, run: Command
) -> None:
    good.plan("dev")
    ran = run("dev", "--json")
    shown = json.loads(ran.out)
    assert (ran.status, shown["stack"], shown["project"]) == (0, "dev", "my-project")
    assert {each["topic"] for each in shown["findings"]} >= {"project", "quotas", "images"}
    good.project(billing=False)
    ran = run("dev")
    assert ran.status == 1
    assert "billing" in ran.out and "1 problem" in ran.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a5-ray"], "there is no stack a5-ray; known: a4-accelerate"),
        (["dev"], "stack dev has no value for gcp:project: pulumi config set gcp:project VALUE"),
        (["dev", "--set", "gcp:project=my-project", "--set", "maxRunHours=0"], "maxRunHours: '0'"),
        (["dev", "--set", "nonsense"], "--set nonsense: write key=value"),
    ],
    ids=["no such stack", "no project", "bad setting", "bad option"],
)
def test_a_command_that_cannot_look_says_why_without_a_traceback(
    words: list[str], text: str, command: Command
) -> None:
    ran = command("preflight", "--stack", *words)
    assert (ran.status, ran.out) == (2, "")
    assert text in ran.err
    assert "Traceback" not in ran.err


def test_a_google_that_nobody_is_behind_is_told_in_a_line(google: GoogleServer, run: Command) -> None:
    google.fail_all(CUT)
    ran = run("dev")
    assert (ran.status, ran.out) == (2, "")
    assert "Google could not be asked: cloudresourcemanager.projects.get" in ran.err
    assert len(ran.err.splitlines()) == 1
