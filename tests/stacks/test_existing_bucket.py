"""A bucket that exists before the stack: the setting `bucket`."""

import copy
import json
import re

import pytest

from cloud.record import PROJECT_NUMBER
from engine.plan import Plan
from rehearsal.fakes.cloud import Item
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.bucket_roles import holds
from tests.stacks.configuration import problems

WITH_BUCKET = plans.stacks_with("bucket")
NAME = "bucket-of-the-team"
SETTINGS = {"bucket": f"gs://{NAME}", "imageUri": plans.IMAGE}
OBJECT = "gcp:storage/bucketObject:BucketObject"


def in_the_bucket(stack: str) -> Plan:
    return plans.shipped(stack, **plans.known_settings(stack, **SETTINGS))


def in_one_of_its_own(stack: str) -> Plan:
    return plans.shipped(stack, **plans.known_settings(stack, imageUri=plans.IMAGE))


@pytest.mark.parametrize("stack", plans.mostly_slow(WITH_BUCKET, quick=["a4-accelerate", "cloudrun-vllm"]))
def test_the_stack_makes_no_bucket_and_only_adds_its_own_accounts_to_that_one(stack: str) -> None:
    plan, own = in_the_bucket(stack), in_one_of_its_own(stack)
    assert not [bucket.name for bucket in plans.of_type(plan, ":Bucket") if "components" not in bucket.type]
    on_bucket = [resource for resource in plans.resources_of(plan) if resource.inputs.get("bucket") == NAME]
    # A member beside those of others. A binding or a policy would replace them.
    assert {resource.type for resource in on_bucket} <= {
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        OBJECT,
    }
    roles = {resource.name: role for resource, role in plans.roles(plan)}
    assert roles == {resource.name: role for resource, role in plans.roles(own)}
    # Nothing protects the stack, so `pulumi destroy` goes through.
    assert not [resource.name for resource in plan.resources if resource.options.get("protect")]


@pytest.mark.parametrize("stack", plans.mostly_slow(WITH_BUCKET, quick=["a4-accelerate", "cloudrun-vllm"]))
def test_everything_that_the_stack_writes_is_in_the_folder_with_its_name(stack: str) -> None:
    plan = in_the_bucket(stack)
    names = [str(item.inputs["name"]) for item in plans.of_type(plan, ":BucketObject")]
    assert all(name.startswith(f"{stack}/") for name in names)
    job, own_job = (
        json.dumps(plans.training(planned).inputs) for planned in (plan, in_one_of_its_own(stack))
    )
    folders = re.findall(r"(?:gs://[\w.-]+/|--folder )([\w.-]+)", job)
    assert {*folders, *re.findall(r"only-dir=([\w.-]+)", plans.text(plan))} <= {stack}
    # A job that has the bucket as a volume writes below a path of it.
    paths = rf"(?:/|--folder ){stack}(?![\w.-])"
    assert len(re.findall(paths, job)) > len(re.findall(paths, own_job))


def test_two_stacks_of_one_scenario_do_not_meet_in_one_bucket() -> None:
    """The rehearsal may give a stack any name that has no file."""
    places = set()
    for stack in ("cloudrun-vllm", "dev"):
        settings = {"forceDestroy": "false", **SETTINGS}
        with Rehearsal(stack, settings) as rehearsal:
            plan = rehearsal.preview()
        places.add(tuple(re.findall(r"gs://[\w./-]+", json.dumps(plans.training(plan).inputs))))
    assert places == {(f"gs://{NAME}/cloudrun-vllm",), (f"gs://{NAME}/dev",)}


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.mostly_slow(WITH_BUCKET, quick=["a4-accelerate", "cloudrun-vllm"]))
def test_destroy_leaves_the_bucket_and_what_was_in_it(stack: str) -> None:
    with Rehearsal(stack, plans.known_settings(stack, **SETTINGS)) as rehearsal:
        rows = {"bucket": NAME, "name": "rows.jsonl", "content": "{}"}
        theirs = [*rehearsal.cloud.foreign, Item(OBJECT, f"{NAME}-rows", "rows", rows, {})]
        rehearsal.cloud.foreign = copy.deepcopy(theirs)
        rehearsal.up()
        members = [item.inputs for item in rehearsal.cloud.items if "IAMMember" in item.type]
        assert [member for member in members if member.get("bucket") == NAME]
        assert rehearsal.preview().changed == 0
        outputs = plans.outputs(rehearsal)
        places = re.findall(r"gs://[\w.-]+/[\w.-]+", json.dumps(outputs))
        assert set(places) == {f"gs://{NAME}/{stack}"}
        assert not [name for name in outputs if name.startswith("destroy")]
        rehearsal.destroy()
        assert rehearsal.cloud.items == []
        assert rehearsal.cloud.foreign == theirs


def test_the_pods_of_the_stacks_own_project_are_meant_wherever_the_bucket_is() -> None:
    with Rehearsal("a4-accelerate", SETTINGS) as rehearsal:
        rehearsal.up()
        members = [str(item.inputs["member"]) for item in rehearsal.cloud.items if "bucket" in item.inputs]
    assert members
    pool = f"principal://iam.googleapis.com/projects/{PROJECT_NUMBER}/locations/global/workloadIdentityPools/"
    assert all(member.startswith(pool) for member in members)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bucketName": "mine"}, "the stack then has no bucket of its own; remove bucketName, or bucket"),
        ({"forceDestroy": "true"}, "has no bucket of its own; remove forceDestroy, or bucket"),
        ({"bucketName": "mine", "forceDestroy": "true"}, "remove bucketName and forceDestroy, or bucket"),
        ({"bucket": NAME}, "gs://NAME, without a folder"),
        ({"bucket": f"gs://{NAME}/runs"}, "gs://NAME, without a folder"),
        ({"bucket": "gs://Team"}, "gs://NAME, without a folder"),
        ({"bucket": ""}, "gs://NAME, without a folder"),
    ],
)
def test_a_wrong_bucket_is_one_message(settings: dict[str, str], words: str) -> None:
    values: dict[str, str | None] = {
        f"llm-stacks:{key}": value for key, value in {"bucket": f"gs://{NAME}", **settings}.items()
    }
    (message,) = problems(values)
    assert message.startswith("bucket: ") and words in message


@pytest.mark.parametrize("stack", WITH_BUCKET)
def test_the_accounts_of_a_stack_reach_its_own_folder_alone(stack: str) -> None:
    bindings = [
        resource.inputs
        for resource in plans.of_type(in_the_bucket(stack), ":BucketIAMMember")
        if resource.inputs["bucket"] == NAME and resource.inputs["role"].startswith("roles/storage.object")
    ]
    assert bindings
    places = {"theirs": "other/", "beside": f"{stack}-2/", "none": "", "own": f"{stack}/run/model/"}
    for binding in bindings:
        role, reached = (
            binding["role"],
            {place for place, name in places.items() if holds(binding, NAME, name)},
        )
        assert reached <= {"own"}, binding
        assert reached or role == "roles/storage.objectViewer"


def test_a_server_reaches_its_run_and_the_base_models_alone() -> None:
    run = f"gs://{NAME}/team/mine"
    plan = plans.shipped("serve", servedRun=run)
    (binding,) = [
        resource.inputs
        for resource in plans.of_type(plan, ":BucketIAMMember")
        if resource.inputs["role"] == "roles/storage.objectViewer"
    ]
    folders = re.findall(r"/objects/([^\"]+)", binding["condition"]["expression"])
    assert folders == ["team/mine/", "team/weights/"]
