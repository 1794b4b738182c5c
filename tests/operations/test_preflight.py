"""Everything that a stack needs: found where it is there, told with its remedy where it is not."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest

from cloud.discovery import Call
from engine.project import known_stacks
from operations import preflight
from operations.findings import Level
from stacks import pins
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.changes import Change, answering, assert_told, existing, failing, nothing, saying
from tests.operations.conftest import Check
from tests.operations.good_project import (
    MANAGER,
    METRICS,
    VIEWER,
    WHOAMI,
    GoodProject,
    access,
    file_of,
    manifest,
)
from tests.operations.google_server import (
    NOT_FOUND,
    REFUSED,
    Fault,
    Page,
)
from tests.operations.planned import IMAGE, PROJECT, planned

GATED, MISSING = {"X_Error_Code": "GatedRepo"}, {"X_Error_Code": "RepoNotFound"}
ASK = "Access to this model is restricted and you are not in the authorized list."
FINE = "Please enable access to public gated repositories in your fine-grained token settings."
UNKNOWN_REVISION = {"X_Error_Code": "RevisionNotFound"}
VERSION_2 = "huggingface/api/datasets/team/texts/revision/v2"
MODEL, DATA = "google/gemma-3-4b-it", "b-mc2/sql-create-context"
PUBLIC = "HuggingFaceFW/fineweb-edu"
SHARED = {"shareType": "SPECIFIC_PROJECTS", "projectMap": {"42": {"projectId": PROJECT}}}
SECRET = "secretmanager.projects.secrets.get"
GPUS_OF_RUN = "nvidia_l4_gpu_allocation_no_zonal_redundancy"
RESERVED = f"{NEUTRAL} zones=us-central1-b capacity.type=reservation"
RESERVING = f"{RESERVED} capacity.reservation=my-reservation"
SHARING = f"{RESERVED} capacity.reservation=projects/owner-project/reservations/my-reservation"
OWN_ROWS = "examples/own-data/my-rows.yaml"
IN_A_BUCKET = '{"data.files":["gs://team/rows.jsonl"]}'
BORROWED = '{"model.chat_template":"gemma3"}'
MIRROR, OF_HUB = "us-docker.pkg.dev/team-images/mirror", pins.VLLM_IMAGE.partition("/")[2]
SERVER = f"docker.io/team/vllm@sha256:{'b' * 64}"
# Topics on which nothing is said of stacks without such a thing.
OPTIONAL = (
    "program",
    "accounts",
    "key",
    "topic",
    "reservation",
    "network",
    "names",
    "bucket",
    "served run",
    "served model",
    "template",
)
ON_SPOT = f"{NEUTRAL} capacity.type=spot imageUri={IMAGE}"


@pytest.mark.parametrize("stack", known_stacks())
def test_a_project_that_has_everything_has_no_problem(stack: str, good: GoodProject, check: Check) -> None:
    plan = good.plan(stack)
    for topic in preflight.CHECKS:
        results = check(plan, topic)
        assert not {item.level for item in results} & {Level.PROBLEM, Level.UNKNOWN}, results
        assert results or topic in OPTIONAL or not plan.has_runs, topic


# What is not as it must be: how the project differs, and what a check then says, with its remedy.


ROW: Final = {"text": "a", "emoji": "b"}


def shown(*rows: dict[str, Any], cut: Mapping[int, str] = MappingProxyType({})) -> Change:
    """The rows of a recipe's data set at the Hub, and a column that it has cut by row."""
    return lambda project: project.rows(planned(NEUTRAL_RUN).recipe.data, *rows, cut=cut)


def in_its_settings(project: GoodProject) -> None:
    """The template stands where older repositories have it."""
    answering(file_of(MODEL, "chat_template.jinja"), 404)(project)
    saying(file_of(MODEL, "tokenizer_config.json"), {"chat_template": "{{ messages }}"})(project)


def in_bucket(content: bytes, size: int = 0) -> Change:
    """The file of the recipe in its bucket, of which Google sends the beginning."""

    def answer(call: Call, _body: Any) -> Any:
        if call.query.get("alt") == "media":
            raise Fault(body=content)
        return {"name": "rows.jsonl", "size": str(size or len(content))}

    return lambda project: project.server.plant("storage.v1", "storage.objects.get", answer)


ON_TPUS: dict[str, Any] = {"location": "US-EAST5", "hierarchicalNamespace": {"enabled": True}}
WEEK = {"retentionDurationSeconds": str(7 * 24 * 3600)}
POLICY = [f"storage.buckets.{verb}IamPolicy" for verb in ("get", "set")]


def team_bucket(allowed: list[str] = POLICY, **fields: Any) -> Change:
    """A bucket that exists before the stack."""
    uniform = {"uniformBucketLevelAccess": {"enabled": True}}
    usual = {"location": "US-CENTRAL1", "locationType": "region", "iamConfiguration": uniform}

    def change(project: GoodProject) -> None:
        existing("storage.v1", "storage.buckets.get", **{**usual, **fields})(project)
        project.server.plant("storage.v1", "storage.buckets.testIamPermissions", {"permissions": [*allowed]})

    return change


OK, WARNING, PROBLEM, UNKNOWN = Level.FINE, Level.WARNING, Level.PROBLEM, Level.UNKNOWN
CHANGES: dict[tuple[str, str], list[tuple[Change, Level, str]]] = {
    (NEUTRAL, "project"): [
        (failing(MANAGER, "cloudresourcemanager.projects.get", REFUSED), PROBLEM, "config set gcp:project"),
        (lambda it: it.project(state="DELETE_REQUESTED"), PROBLEM, "DELETE_REQUESTED"),
        (lambda it: it.project(billing=False), PROBLEM, "gcloud billing projects link"),
    ],
    (NEUTRAL, "APIs"): [
        (lambda it: it.apis([]), WARNING, "gcloud services enable artifactregistry.googleapis.com"),
        (lambda it: it.apis(["artifactregistry.googleapis.com"]), WARNING, "not enabled yet: cloudbuild.goo"),
    ],
    (NEUTRAL, "places"): [
        (lambda it: it.region("DOWN"), PROBLEM, "us-central1 is DOWN"),
        (failing("compute.v1", "compute.regions.get", NOT_FOUND), PROBLEM, "no region us-central1"),
    ],
    ("a4-ray", "places"): [
        (lambda it: it.places("us-east5-a"), PROBLEM, "no a4-highgpu-8g in us-central1-a, us-central1-b"),
        # On Autopilot there is no zone to set.
        (
            lambda it: it.places("us-east5-a"),
            PROBLEM,
            "project sees: pulumi config set gcp:region VALUE --stack a4-ray",
        ),
    ],
    (NEUTRAL, "permissions"): [
        (lambda it: it.permissions("container.clusters.create"), PROBLEM, "--role roles/container.admin"),
        (lambda it: it.permissions("iam.serviceAccounts.actAs"), PROBLEM, "missing: iam.serviceAccounts.act"),
    ],
    # Opening a service to all takes the right to change who may call it.
    (f"{NEUTRAL_RUN} invokers=allUsers", "permissions"): [
        (lambda it: it.permissions("run.services.setIamPolicy"), PROBLEM, "--role roles/run.admin"),
    ],
    (f"{NEUTRAL} bucketName=my-bucket", "names"): [
        (nothing, OK, "my-bucket"),
        (failing("storage.v1", "storage.buckets.get", REFUSED), PROBLEM, "my-bucket belongs to some"),
        (
            existing("secretmanager.v1", SECRET, labels={"stack": NEUTRAL}),
            WARNING,
            "leftovers --stack ne",
        ),
        (
            existing("secretmanager.v1", SECRET),
            PROBLEM,
            "secret neutral-hugging-face-token is there al",
        ),
    ],
    (f"{NEUTRAL} bucket=gs://team", "bucket"): [
        (team_bucket(), OK, "the runs go to gs://team/neutral/"),
        (team_bucket(location="EU", locationType="multi-region"), WARNING, "in several regions (eu)"),
        (team_bucket(location="EUROPE-WEST4"), WARNING, "in europe-west4 and the machines are in us-cent"),
        (team_bucket(iamConfiguration={}), PROBLEM, "update gs://team --uniform-bucket-level-access"),
        (team_bucket(allowed=[]), PROBLEM, "missing on bucket team: storage.buckets.getIamPolicy, storage"),
        (failing("storage.v1", "storage.buckets.get", REFUSED), PROBLEM, "you may not look at bucket team"),
        (
            failing("storage.v1", "storage.buckets.get", NOT_FOUND),
            PROBLEM,
            "there is no bucket team\ngcloud storage buckets create gs://team --project my-project "
            "--location us-central1 --uniform-bucket-level-access --public-access-prevention",
        ),
    ],
    # Pods write to this one as to a disk.
    (f"tpu-maxtext imageUri={IMAGE} bucket=gs://team", "bucket"): [
        (team_bucket(**ON_TPUS), OK, "the runs go to gs://team/tpu-maxtext/"),
        (team_bucket(location="us-east5"), PROBLEM, "created with --enable-hierarchical-namespace"),
        (team_bucket(**ON_TPUS, softDeletePolicy=WEEK), WARNING, "bills deleted checkpoints for 7 days"),
        (
            failing("storage.v1", "storage.buckets.get", NOT_FOUND),
            PROBLEM,
            "--public-access-prevention --enable-hierarchical-namespace",
        ),
    ],
    (RESERVING, "reservation"): [
        (nothing, OK, "my-reservation in us-central1-b: 3 g2-standard-12 free"),
        (lambda it: it.reservation(name="another"), PROBLEM, "no reservation my-reservation in project"),
        (lambda it: it.reservation(zone="zones/us-east5-a"), PROBLEM, "us-central1, but in us-east5-a"),
        (lambda it: it.reservation(status="CREATING"), PROBLEM, "reservation my-reservation is CREATING"),
        (lambda it: it.reservation(count=2), PROBLEM, "has 1 free machines, and 2 are needed by"),
        (lambda it: it.reservation(machine="a3-highgpu-8g"), PROBLEM, "neutral-l4-pool needs g2-standard-12"),
        (lambda it: it.reservation(specificReservationRequired=False), WARNING, "others may take it"),
        (lambda it: it.reservation(specificReservation={}), WARNING, "2 g2-standard-12 fit is not known"),
    ],
    (SHARING, "reservation"): [
        (lambda it: it.reservation("owner-project", shareSettings=SHARED), OK, "3 g2-standard-12 free"),
        (
            lambda it: it.reservation("owner-project"),
            PROBLEM,
            "--project owner-project --add-share-with my-p",
        ),
        (
            failing("compute.v1", "compute.reservations.aggregatedList", REFUSED),
            UNKNOWN,
            "credentials cannot read",
        ),
    ],
    (ON_SPOT, "quotas"): [
        (lambda it: it.region(PREEMPTIBLE_NVIDIA_L4_GPUS=(1.0, 0.0)), PROBLEM, "2 needed, limit 1"),
        (lambda it: it.region(PREEMPTIBLE_NVIDIA_L4_GPUS=(1.0, 0.0)), PROBLEM, "quotas?project=my-project"),
    ],
    (NEUTRAL, "quotas"): [
        (lambda it: it.quotas(concurrent_public_pool_build_cpus=0), PROBLEM, "8 needed, limit 0"),
        (lambda it: it.quotas(concurrent_public_pool_build_cpus=0), PROBLEM, "set buildRegion us-central1"),
        (lambda it: it.region(NVIDIA_L4_GPUS=(8.0, 7.0)), PROBLEM, "2 needed, limit 8, 7 in use"),
        (lambda it: it.region(SSD_TOTAL_GB=(400.0, 0.0)), PROBLEM, "500 GB needed, limit 400 GB, 0 GB in"),
        # Two g2-standard-12 and two e2-standard-4, on the usual quotas of new projects.
        (lambda it: it.region(CPUS=(24.0, 0.0)), PROBLEM, "/cpus in us-central1: 32 needed, limit 24, 0 in"),
        (
            lambda it: it.quotas(CPUS_ALL_REGIONS=24),
            PROBLEM,
            "in all regions: 32 needed, limit 24",
        ),
    ],
    (NEUTRAL_RUN, "quotas"): [
        (lambda it: it.quotas(cpu_allocation=7000), PROBLEM, "8 vCPU needed, limit 7 vCPU"),
        # What new projects have is enough: the job has ended when the service starts.
        (lambda it: it.quotas(mem_allocation=40 * 2**30), OK, "32 GiB needed, limit 40 GiB"),
        (lambda it: it.quotas(**{GPUS_OF_RUN: 1}), OK, f"{GPUS_OF_RUN} in us-central1: 1 needed"),
        (lambda it: it.quotas(**{GPUS_OF_RUN: 0}), WARNING, "grants 3 with the first deployment"),
        (lambda it: it.quotas(cpu_allocation=-1), OK, "run.googleapis.com/cpu_allocation: no limit"),
        (
            lambda it: it.server.plant("serviceusage.v1beta1", METRICS, {}),
            UNKNOWN,
            "cpu_allocation: Google lists no value",
        ),
    ],
    # Every instance that a service may have counts.
    (f"{NEUTRAL_RUN} maxInstances=3", "quotas"): [
        (lambda it: it.quotas(mem_allocation=40 * 2**30), PROBLEM, "48 GiB needed, limit 40 GiB"),
        (lambda it: it.quotas(**{GPUS_OF_RUN: 2}), PROBLEM, f"{GPUS_OF_RUN} in us-central1: 3 needed"),
    ],
    (NEUTRAL, "Hugging Face"): [
        (nothing, OK, "the stack's hfToken is jane's"),
        (answering(WHOAMI, 401), PROBLEM, "pulumi config set --secret hfToken"),
        (answering(WHOAMI, 401), PROBLEM, "does not accept the stack's hfToken (401)"),
        (answering(WHOAMI, 429), UNKNOWN, "answers with 429"),
        (answering(WHOAMI, 503), UNKNOWN, "answers with 503"),
        (saying(WHOAMI, []), UNKNOWN, "the Hugging Face Hub gave no usable answer: TypeError"),
        (
            answering(access("model", MODEL), 403, **GATED, X_Error_Message=ASK),
            PROBLEM,
            f"model {MODEL}: {ASK}",
        ),
        (answering(access("dataset", DATA), 403, X_Error_Message=FINE), PROBLEM, f"dataset {DATA}: {FINE}"),
        (answering(access("dataset", DATA), 403), PROBLEM, "a fine-grained token needs the permission for"),
        (answering(access("model", MODEL), 403, **GATED), PROBLEM, f"https://huggingface.co/{MODEL}"),
        (answering(access("dataset", DATA), 404, **MISSING), PROBLEM, f"there is no dataset {DATA}"),
    ],
    # A public data set needs no token, and data that is made up needs nothing of the Hub.
    (f"tpu-maxtext imageUri={IMAGE} recipe=llama3-8b-fineweb-edu", "Hugging Face"): [
        (nothing, OK, f"dataset {PUBLIC} may be downloaded"),
        (answering(access("dataset", PUBLIC), 404, **MISSING), PROBLEM, "or not for whoever has no token"),
    ],
    (f"tpu-maxtext imageUri={IMAGE} recipe=llama31-8b-continued", "Hugging Face"): [
        (nothing, OK, "model meta-llama/Llama-3.1-8B may be downloaded"),
    ],
    (f"tpu-maxtext imageUri={IMAGE} dataset=hf://datasets/team/texts/*.parquet", "Hugging Face"): [
        (nothing, OK, "dataset team/texts may be downloaded"),
    ],
    (f"tpu-maxtext imageUri={IMAGE} dataset=hf://datasets/team/texts@v2/*.parquet", "Hugging Face"): [
        (
            lambda it: it.server.plant_page(VERSION_2, Page(content={"id": "team/texts"})),
            OK,
            "dataset team/texts may be downloaded",
        ),
        (answering(VERSION_2, 404, **UNKNOWN_REVISION), PROBLEM, "team/texts has no revision v2"),
        (saying(VERSION_2, ["team/texts"]), UNKNOWN, "the Hugging Face Hub gave no usable answer: TypeError"),
    ],
    ("l4-kueue servingModel=team/chat@v2", "Hugging Face"): [
        (
            answering("huggingface/api/models/team/chat/revision/v2", 404, **UNKNOWN_REVISION),
            PROBLEM,
            "team/chat has no revision v2",
        )
    ],
    (NEUTRAL, "template"): [
        (nothing, OK, f"model {MODEL} has one"),
        (
            answering(file_of(MODEL, "chat_template.jinja"), 404),
            PROBLEM,
            "has no chat template, as base models have none\nset model.chat_template to the name of one",
        ),
        (in_its_settings, OK, f"model {MODEL} has one"),
    ],
    (f"{NEUTRAL} recipeSet={BORROWED}", "template"): [
        (nothing, OK, "the recipe borrows gemma3"),
    ],
    (f"tpu-maxtext imageUri={IMAGE}", "data"): [(nothing, OK, "the recipe names no rows")],
    (NEUTRAL_RUN, "data"): [
        (
            nothing,
            OK,
            "without the chat template: user: Translate to emoji: words | assistant (trained): words",
        ),
        (shown({"text": "a", "emojis": "b"}), PROBLEM, "Text2Emoji has no column emoji; it has text, emojis"),
        (shown({"text": "a", "emoji": ""}, {"text": "a", "emoji": "b"}), WARNING, "1 of the first 2 rows"),
        # A row whose long cell the Hub has cut says nothing of the data set.
        (shown(ROW, {"text": "a", "emoji": ""}, cut={1: "emoji"}), OK, "row 0 of KomeijiForce/Text2Emoji"),
        (shown({"text": "a", "emoji": ""}, ROW, cut={0: "emoji"}), OK, "row 1 of KomeijiForce/Text2Emoji"),
        (shown(ROW, ROW, {"text": "a", "emoji": ""}, cut={0: "emoji"}), WARNING, "rows: 2 (the first is 0)"),
        (
            shown({"text": "a", "emoji": ""}, cut={0: "emoji"}),
            OK,
            "the first 1 rows of KomeijiForce/Text2Emoji cut",
        ),
        (
            shown({"text": "a", "emoji": ""}, cut={0: "other"}),
            WARNING,
            "1 of the first 1 rows",
        ),
        (answering(f"{VIEWER}/first-rows", 501), WARNING, "the Hub shows no rows of KomeijiForce/Text2Emoji"),
        (saying(f"{VIEWER}/splits", []), WARNING, "the Hub shows no rows of KomeijiForce/Text2Emoji"),
    ],
    (f"{NEUTRAL} recipe={OWN_ROWS}", "data"): [
        (nothing, OK, "my-rows.jsonl is here (0.0 MB), and up uploads it"),
        (
            nothing,
            OK,
            "row 0 of my-rows.jsonl without the chat template: user: A lamp for reading | assistant",
        ),
    ],
    (f"{NEUTRAL} recipe={OWN_ROWS} recipeSet={IN_A_BUCKET}", "data"): [
        (in_bucket(b'{"messages": []}', size=2_500_000), OK, "is there (2.5 MB)"),
        (in_bucket(b'{"messages": [{"role"', size=2_500_000), OK, "preflight did not look at its rows"),
        (
            in_bucket(b'{"messages": []}'),
            PROBLEM,
            "rows.jsonl, row 0 (the first is 0): messages must be a list",
        ),
        (
            failing("storage.v1", "storage.objects.get", NOT_FOUND),
            PROBLEM,
            "there is no gs://team/rows.jsonl\ngcloud storage cp rows.jsonl gs://team/rows.jsonl",
        ),
        (failing("storage.v1", "storage.objects.get", REFUSED), UNKNOWN, "storage.objects.get"),
    ],
    (f"tpu-maxtext imageUri={IMAGE}", "Hugging Face"): [(nothing, OK, "the stack uses nothing from it")],
    (NEUTRAL, "images"): [
        (nothing, OK, "exists"),
        (answering(manifest(pins.VLLM_IMAGE), 404), PROBLEM, "does not exist"),
        (answering(manifest(pins.VLLM_IMAGE), 500), UNKNOWN, "registry-1.docker.io answers with 500"),
        (answering("registry/token", 429), UNKNOWN, "registry-1.docker.io answers with 429"),
        (
            saying("registry/token", []),
            UNKNOWN,
            "registry-1.docker.io gives no usable answer (AttributeError)",
        ),
    ],
    (f"{NEUTRAL} servingImage={SERVER}", "images"): [
        (nothing, OK, f"{SERVER} exists"),
        (answering(manifest(SERVER), 404), PROBLEM, "pulumi config set servingImage REGISTRY/IMAGE@sha256:"),
    ],
    (f"{NEUTRAL} registry={MIRROR}", "images"): [
        (nothing, OK, f"{MIRROR}/vllm/vllm-openai"),
        (answering(manifest(f"{MIRROR}/{OF_HUB}"), 404), PROBLEM, f"let {MIRROR} mirror Docker Hub and"),
    ],
    (ON_SPOT, "images"): [
        (nothing, OK, f"{IMAGE} exists"),
        (answering(manifest(IMAGE), 404), PROBLEM, f"{IMAGE} does not exist"),
        (answering(manifest(IMAGE), 403), UNKNOWN, "cannot read"),
    ],
}


@pytest.mark.parametrize(
    ("stack", "topic", "change", "level", "words"),
    [(*where, *item) for where, several in CHANGES.items() for item in several],
)
def test_what_is_not_as_it_must_be_is_told_with_its_remedy(
    stack: str, topic: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(stack, topic, change, level, words, good, check)
