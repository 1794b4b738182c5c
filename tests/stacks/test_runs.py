"""What must hold of every stack that trains: its image, what is run again, how long it runs."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stacks
from engine.plan import Plan
from engine.project import ROOT
from operations.previews.stack_inputs import stack_file
from rehearsal.errors import RehearsalError
from rehearsal.fake_cloud import BUCKET
from rehearsal.session import Rehearsal
from stacks import pins
from tests import inventory, plans
from tests.checkout import copy_of_program
from workloads.ending.exit_codes import EXIT_CODES, Retry

STACKS = plans.stacks_with("recipe")
ON_GKE = plans.stacks_with("recipe", "clusterName")
# Ray counts its own tries.
ON_GKE_BY_JOB = [
    stack for stack in ON_GKE if any(row["type"].endswith("batch/v1:Job") for row in inventory.written(stack))
]
ON_GKE_BY_RAY = [stack for stack in ON_GKE if stack not in ON_GKE_BY_JOB]
AWAITABLE = plans.stacks_with("waitForTraining")
OTHER_IMAGE = f"docker.io/team/finetune@sha256:{'b' * 64}"
# What an edit of the training code may touch: the code, what trains, and what serves what was trained.
CODE = (
    ":ConfigMap",
    ":BucketObject",
    ":RayJob",
    ":batch/v1:Job",
    "cloudrunv2/job:Job",
    "cloudrun:Execution",
    "cloudrunv2/service:Service",
)


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize(
    "stack", plans.mostly_slow(["cloudrun-vllm", "a4-accelerate"], quick=["cloudrun-vllm"])
)
def test_a_new_token_takes_the_place_of_the_old_one_every_time(stack: str) -> None:
    """Both versions are there for a moment, and the one that goes is the old one. On GKE no Job names one."""
    version, jobs = "gcp:secretmanager/secretVersion:SecretVersion", set[str]()
    with Rehearsal(stack) as rehearsal:
        for number in ("1", "2", "3"):
            tokens = {"hfToken": f"hf_{number}_of_somebody_else", "wandbKey": f"key_{number}_of_theirs" * 3}
            rehearsal.configure({"imageUri": plans.IMAGE, **tokens})
            rehearsal.up()
            kept = list(rehearsal.cloud.of_type(version))
            assert {each.inputs["secretData"] for each in kept} == set(tokens.values())
            assert [each.outputs["version"] for each in kept] == [number, number]
            training = plans.training(plans.standing_plan(rehearsal)).inputs
            jobs.add(json.dumps(training, sort_keys=True))
            read = list(plans.values(training, "version"))
            assert read == [number, number] * (stack == "cloudrun-vllm")
            assert not rehearsal.preview().changed
        assert len(jobs) == (3 if stack == "cloudrun-vllm" else 1)
        rehearsal.destroy()
        assert not rehearsal.cloud.items


@pytest.mark.parametrize(
    "stack", plans.mostly_slow(plans.stacks_with("wandbKey"), quick=["cloudrun-vllm"]), indirect=True
)
def test_with_a_key_every_container_that_trains_has_it_from_its_secret_and_without_it_none(
    stack: str, standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    without, plan = plans.standing_plan(standing), next_plan(wandbKey="key_of_a_test" * 4)
    assert "wandb-key" not in plans.text(without)
    made = {
        each.name.removeprefix(f"{stack}-wandb-key") for each in plan.resources if "wandb-key" in each.name
    }
    assert made == {"", "-version", "-finetune" if stack == "cloudrun-vllm" else "-for-pods"}
    training = plans.training(plan)
    assert plans.run_once(plan).op == "replace" and plans.runs(plan) == plans.runs(without)
    for each in plan.resources:
        if each.type.startswith(("kubernetes:", "gcp:cloudrun")):
            told = json.dumps(each.inputs).count('{"name": "WANDB_API_KEY", "value')
            # Ray's head and its workers.
            containers = 2 if stack in ON_GKE_BY_RAY else 1
            assert told == containers * (each is training), each.name


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the program that a test may edit."""
    return copy_of_program(tmp_path)


def edit(checkout: Path, *files: str) -> None:
    for file in files:
        path = checkout / "workloads" / file
        path.write_text(path.read_text() + ("one-line==1\n" if file.endswith(".txt") else "ONE_LINE = 1\n"))


@pytest.mark.parametrize("recipe", ["gemma-3.1-mine", "4b-vision"])
def test_a_recipe_may_be_called_what_a_file_may_be_called(recipe: str, checkout: Path) -> None:
    recipes = checkout / "workloads" / "finetune" / "recipes"
    (recipes / "gemma-3-4b-vision.yaml").rename(recipes / f"{recipe}.yaml")
    with Rehearsal("a4-ray", {"recipe": recipe}, checkout=checkout) as rehearsal:
        assert plans.only(rehearsal.preview(), ":ray.io/v1:RayJob")


# The image


def test_a_given_image_is_not_built(stack: str, standing: Rehearsal) -> None:
    made = plans.standing_plan(standing)
    assert plans.IMAGE in plans.text(made)
    assert not plans.of_type(made, ":Build") + plans.of_type(made, ":Repository")
    assert "cloudbuild" not in plans.text(made)


def test_nodes_may_pull_an_image_of_artifact_registry_and_need_nothing_for_another(
    next_plan: Callable[..., Plan], standing: Rehearsal
) -> None:
    on_gke = bool(plans.of_type(plans.standing_plan(standing), "container/cluster:Cluster"))
    pulls = [
        each.inputs["repository"]
        for each in plans.of_type(plans.standing_plan(standing), ":RepositoryIamMember")
    ]
    assert pulls == ["images"] * on_gke
    elsewhere = next_plan(imageUri=OTHER_IMAGE)
    assert [each.op for each in plans.of_type(elsewhere, ":RepositoryIamMember")] == ["delete"] * on_gke


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray", "cloudrun-vllm"]), indirect=True)
def test_code_is_run_anew_without_a_build_and_libraries_with_one(stack: str, checkout: Path) -> None:
    with Rehearsal(stack, checkout=checkout) as rehearsal:
        rehearsal.up()
        first = plans.standing_plan(rehearsal)
        image = rf"us-\w+-docker\.pkg\.dev/rehearsal-project/images-{stack}/\w+@sha256:[0-9a-f]{{64}}"
        assert re.search(image, str(plans.training(first).inputs))
        assert plans.of_type(first, ":Build")[0] in plans.awaited(first, plans.training(first))

        edit(checkout, "finetune/training.py", "maxtext/maxtext_driver/worker.py")
        code = rehearsal.preview()
        assert not [
            each.name for each in code.resources if each.op != "same" and not each.type.endswith(CODE)
        ]
        edit(checkout, "finetune/requirements.txt", "maxtext/requirements.txt")
        libraries = rehearsal.preview()
        assert [each.name for each in plans.of_type(libraries, ":Build") if each.op != "same"]
    before, again, anew = plans.runs(first), plans.runs(code) - plans.runs(first), plans.runs(libraries)
    assert before and again and anew - before - again


def test_an_image_is_built_once_and_again_for_other_libraries(checkout: Path) -> None:
    with Rehearsal("a4-ray", checkout=checkout) as rehearsal:
        rehearsal.up()
        grants = {
            (each.inputs["repository"], each.inputs["role"], each.inputs["member"].split("@")[0][:-7])
            for each in plans.of_type(plans.standing_plan(rehearsal), ":RepositoryIamMember")
        }
        edit(checkout, "finetune/training.py")
        rehearsal.up()
        assert len(rehearsal.builds.builds) == 1
        edit(checkout, "finetune/requirements.txt")
        rehearsal.up()
        assert len(rehearsal.builds.builds) == 2
        assert rehearsal.preview().changed == 0
    assert sys.modules["stacks"] is stacks  # not that of the other checkout
    # The cluster's nodes read the repository, and the build alone writes it.
    assert grants == {
        ("images-a4-ray", "roles/artifactregistry.reader", "serviceAccount:a4-ray-nodes-"),
        ("images-a4-ray", "roles/artifactregistry.writer", "serviceAccount:a4-ray-builder-"),
    }


@pytest.mark.parametrize(("setting", "scanned"), [("false", "DISABLED"), ("true", "INHERITED")])
def test_scanning_is_a_setting(setting: str, scanned: str) -> None:
    repository = plans.only(plans.shipped("a4-ray", scanImages=setting), ":Repository")
    assert repository.inputs["vulnerabilityScanningConfig"] == {"enablementConfig": scanned}


@pytest.mark.parametrize("workload", ["finetune", "maxtext"])
def test_the_ray_that_operators_are_told_of_is_the_ray_in_the_image(workload: str) -> None:
    locked = (ROOT / "workloads" / workload / "requirements.txt").read_text()
    assert re.search(rf"^ray(\[[a-z,]+\])?=={re.escape(pins.RAY_VERSION)}\b", locked, re.MULTILINE)


# What is run again


def test_another_image_is_another_run(standing: Rehearsal, next_plan: Callable[..., Plan]) -> None:
    plan = next_plan(imageUri=OTHER_IMAGE)
    assert plans.runs(plan)
    assert not plans.runs(plan) & plans.runs(plans.standing_plan(standing))


@pytest.mark.parametrize("stack", ON_GKE, indirect=True)
def test_another_capacity_is_where_the_accelerators_come_from_and_leaves_the_run_as_it_is(
    standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    """The other capacities: tests/components/test_capacity.py."""
    plan = next_plan(capacity_type="spot")
    assert plans.runs(plan) <= plans.runs(plans.standing_plan(standing))
    pools = plans.of_type(plan, "container/nodePool:NodePool")
    if pools:
        (moved,) = [pool for pool in pools if pool.op in ("replace", "update")]
        assert moved.inputs["nodeConfig"]["spot"] is True
    else:
        assert plans.training(plan).op == "replace"
        selectors = [spec["nodeSelector"] for _, spec in plans.pods(plan) if "nodeSelector" in spec]
        assert {selector.get("cloud.google.com/gke-spot") for selector in selectors} == {"true"}
    assert not [each.name for each in plan.resources if each.op != "same" and each.type.endswith(":Cluster")]


@pytest.mark.parametrize("stack", ON_GKE, indirect=True)
def test_who_takes_spot_is_told_how_little_time_a_run_has_to_save(next_plan: Callable[..., Plan]) -> None:
    (told,) = next_plan(capacity_type="spot").warnings
    assert "its pods have at most 25 seconds, even with a longer grace period" in told
    assert not next_plan().warnings


@pytest.mark.parametrize("stack", ON_GKE)
@pytest.mark.parametrize("capacity", ["spot", "flexStart"])
def test_every_word_of_a_command_that_is_known_in_advance_is_in_the_name_of_the_job(
    stack: str, capacity: str
) -> None:
    """No deadline of Kubernetes tells them apart, and what stands beside them in the command is an output."""
    settings = [
        {},
        {"maxRunHours": "8"},
        {"maxRunHours": "100"},
        {"bucketName": "one"},
        {"bucketName": "two"},
    ]
    names = [
        plans.training(plans.shipped(stack, imageUri=plans.IMAGE, capacity_type=capacity, **each)).inputs[
            "metadata"
        ]["name"]
        for each in settings
    ]
    own = stack_file(stack).get("maxRunHours")
    assert len({*names}) == len(settings) - (str(own) in ("8", "100"))


def test_another_bucket_runs_the_training_again(stack: str, next_plan: Callable[..., Plan]) -> None:
    """What was written into the old one is gone, and the new one is empty."""
    plan = next_plan(bucketName="bucket-of-a-test")
    assert plans.only(plan, ":Bucket").op == "replace"
    assert plans.run_once(plan).op == "replace"


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_a_bucket_that_somebody_deleted_comes_back_with_a_training(stack: str) -> None:
    """It has another automatic name, which nobody knows in advance."""
    with Rehearsal(stack, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        before = plans.run_once(plans.standing_plan(rehearsal))
        (bucket,) = rehearsal.cloud.of_type(BUCKET)
        rehearsal.cloud.remove(bucket)
        rehearsal.refresh()
        assert plans.run_once(rehearsal.preview()).op == "replace"
        rehearsal.up()
        assert ("create-replacement", before.name) in rehearsal.last.steps
        assert not rehearsal.preview().changed


# What ends a Job


@pytest.mark.parametrize("stack", ON_GKE_BY_JOB, indirect=True)
def test_a_job_does_after_each_exit_code_what_the_table_says(standing: Rehearsal) -> None:
    spec = plans.training(plans.standing_plan(standing)).inputs["spec"]
    pod = spec["template"]["spec"]
    by_code = [
        (rule["action"], rule["onExitCodes"])
        for rule in spec["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    ]
    assert {codes["containerName"] for _, codes in by_code} == {pod["containers"][0]["name"]}
    found = {code: action for action, codes in by_code for code in codes["values"]}
    assert found == {
        code: meaning.retry for code, meaning in EXIT_CODES.items() if code and meaning.retry != Retry.COUNTED
    }
    assert pod["restartPolicy"] == "Never"


@pytest.mark.parametrize("stack", ON_GKE_BY_JOB, indirect=True)
def test_a_node_that_goes_is_not_counted(standing: Rehearsal) -> None:
    rules = plans.training(plans.standing_plan(standing)).inputs["spec"]["podFailurePolicy"]["rules"]
    node_goes = [{"type": "DisruptionTarget", "status": "True"}]
    assert {"action": "Ignore", "onPodConditions": node_goes} in rules


@pytest.mark.parametrize("stack", ON_GKE_BY_RAY, indirect=True)
def test_ray_drains_a_node_for_most_of_the_time_that_its_pod_has(standing: Rehearsal) -> None:
    cluster = plans.training(plans.standing_plan(standing)).inputs["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        environment = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        drained = int(environment["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
        assert 30 < drained < pod["terminationGracePeriodSeconds"]


# What `up` waits for


@pytest.mark.parametrize("stack", plans.mostly_slow(AWAITABLE, quick=["a4-accelerate"]))
def test_up_waits_for_the_training_when_it_is_told_to_and_ends_as_it_does(stack: str) -> None:
    settings = {"imageUri": plans.IMAGE, "waitForTraining": "true"}
    with Rehearsal(stack, settings) as rehearsal:
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        rehearsal.configure({**settings, "imageUri": OTHER_IMAGE})
        rehearsal.cloud.outcome = "Failed"
        with pytest.raises(RehearsalError, match=rf"{stack}-job|the training failed: RayJob"):
            rehearsal.up()
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


def test_a_job_that_failed_stays_and_fails_the_next_up_too_which_runs_nothing() -> None:
    with Rehearsal("a4-accelerate", {"imageUri": plans.IMAGE, "waitForTraining": "true"}) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        for _ in range(2):
            with pytest.raises(RehearsalError, match=r"Job .* failed"):
                rehearsal.up()
            (job,) = rehearsal.cloud.of_type("kubernetes:batch/v1:Job")
            assert plans.changes(rehearsal.preview()) == {job.name: "update"}
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("Stopped", "the training failed: RayJob .*: it was stopped: .*watchTraining"),
        ("Rejected", "the Ray operator rejects RayJob .*, and nothing ran: the name is no DNS label"),
    ],
)
def test_a_ray_job_that_is_stopped_or_rejected_is_no_success(outcome: Any, message: str) -> None:
    with Rehearsal("a4-ray", {"imageUri": plans.IMAGE, "waitForTraining": "true"}) as rehearsal:
        rehearsal.cloud.outcome = outcome
        with pytest.raises(RehearsalError, match=message):
            rehearsal.up()


@pytest.mark.parametrize("stack", ON_GKE, indirect=True)
def test_up_does_not_wait_for_the_training_unless_it_is_told_to(standing: Rehearsal) -> None:
    training = plans.training(plans.standing_plan(standing))
    annotations = training.inputs["metadata"].get("annotations") or {}
    # Pulumi waits for every Job, and for no custom object, unless it is told otherwise.
    if training.inputs["kind"] == "Job":
        assert annotations["pulumi.com/skipAwait"] == "true"
    assert "pulumi.com/waitFor" not in annotations


# How long a run takes


def test_a_run_knows_how_long_it_may_train_and_with_another_limit_it_is_the_same_run(
    stack: str, standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    hours = stack_file(stack).get("maxRunHours")
    plan = next_plan(maxRunHours="100")
    for each, limit in ((plans.standing_plan(standing), hours), (plan, "100")):
        told = re.findall(r"--max-run-hours=(\d+)", str(plans.training(each).inputs))
        assert told == ([str(limit)] if limit else [])
    assert plans.run_once(plan).op == "replace"
    assert plans.runs(plan) == plans.runs(plans.standing_plan(standing))


@pytest.mark.parametrize("stack", ON_GKE, indirect=True)
def test_a_run_that_does_not_end_itself_is_ended_and_its_accelerators_are_given_back(
    stack: str, standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    hours = stack_file(stack).get("maxRunHours")
    default = hours and (int(hours) + 2) * 3600
    for plan, seconds in ((plans.standing_plan(standing), default), (next_plan(maxRunHours="2"), 4 * 3600)):
        assert plans.training(plan).inputs["spec"].get("activeDeadlineSeconds") == seconds
        nodes = [each.inputs["nodeConfig"] for each in plans.of_type(plan, "container/nodePool:NodePool")]
        limits = [node["maxRunDuration"] for node in nodes if "maxRunDuration" in node]
        assert limits == ([f"{seconds}s"] if seconds and nodes else [])


@pytest.mark.parametrize("stack", ON_GKE, indirect=True)
def test_a_run_that_waits_for_machines_is_not_ended(next_plan: Callable[..., Plan]) -> None:
    spec = plans.training(next_plan(maxRunHours="2", capacity_type="spot")).inputs["spec"]
    assert "activeDeadlineSeconds" not in spec
