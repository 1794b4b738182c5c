"""What must hold of the cloudrun-vllm stack, and of dev, on the real engine."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.plan import Plan
from rehearsal import Rehearsal, RehearsalError
from rehearsal.fake_cloud import Item
from tests import plans

STACK = "cloudrun-vllm"
ROOT = Path(__file__).parent.parent.parent
JOB, SERVICE = f"{STACK}-job", f"{STACK}-service"
# Cloud Run's own limits.
LONGEST_GPU_TASK, LONGEST_PROBE = 3600, 240


def task(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":Job").inputs["template"]["template"]


def revision(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, "cloudrunv2/service:Service").inputs["template"]


def container(template: dict[str, Any]) -> dict[str, Any]:
    (found,) = template["containers"]
    return found


# Identities and what they may do


def test_the_job_writes_to_the_bucket_and_the_service_only_reads(standing: Rehearsal) -> None:
    roles = _roles(standing, "gcp:storage/bucketIAMMember:BucketIAMMember")
    readers_of_the_token = _roles(standing, "gcp:secretmanager/secretIamMember:SecretIamMember")
    job = f"serviceAccount:{_live(standing, JOB)['template']['template']['serviceAccount']}"
    service = f"serviceAccount:{_live(standing, SERVICE)['template']['serviceAccount']}"
    assert job != service
    assert roles == {
        job: {"roles/storage.objectUser", "roles/storage.legacyBucketReader"},
        service: {"roles/storage.objectViewer", "roles/storage.legacyBucketReader"},
    }
    assert readers_of_the_token == {job: {"roles/secretmanager.secretAccessor"}}


def _roles(rehearsal: Rehearsal, type_token: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for item in rehearsal.cloud.of_type(type_token):
        found.setdefault(item.inputs["member"], set()).add(item.inputs["role"])
    return found


def _live(rehearsal: Rehearsal, name: str) -> dict[str, Any]:
    (item,) = [item for item in rehearsal.cloud.items if item.name == name]
    return item.inputs


# The token


def test_the_job_gets_one_version_of_the_token_by_reference_and_the_service_none(standing: Rehearsal) -> None:
    job = container(_live(standing, JOB)["template"]["template"])
    service = container(_live(standing, SERVICE)["template"])
    (token,) = [variable for variable in job["envs"] if variable["name"] == "HF_TOKEN"]
    assert token == {
        "name": "HF_TOKEN",
        "valueSource": {"secretKeyRef": {"secret": f"{STACK}-hugging-face-token", "version": "1"}},
    }
    assert not [variable for variable in service["envs"] if "value" not in variable]


# Who may call the service


def test_the_service_is_private(plan: Plan) -> None:
    assert not plans.of_type(plan, ":ServiceIamMember")
    assert plans.named(plan, SERVICE).inputs["invokerIamDisabled"] is False


def test_invokers_may_call_the_service_and_nothing_more(plan_with: Callable[..., Plan]) -> None:
    members = ["user:me@example.com", "group:team@example.com"]
    plan = plan_with(invokers=json.dumps(members))
    given = [binding.inputs for binding in plans.of_type(plan, ":ServiceIamMember")]
    assert sorted(binding["member"] for binding in given) == sorted(members)
    assert {binding["role"] for binding in given} == {"roles/run.invoker"}


def test_only_the_word_all_users_makes_it_public(plan: Plan, plan_with: Callable[..., Plan]) -> None:
    assert "allUsers" not in plans.text(plan)
    (binding,) = plans.of_type(plan_with(invokers="allUsers"), ":ServiceIamMember")
    assert binding.inputs["member"] == "allUsers"
    with pytest.raises(RehearsalError, match="write allUsers if you mean the whole world"):
        plan_with(invokers="allAuthenticatedUsers")


# Machines, limits


def test_job_and_service_have_one_l4_without_zonal_redundancy(plan: Plan) -> None:
    for template in (task(plan), revision(plan)):
        assert template["nodeSelector"] == {"accelerator": "nvidia-l4"}
        assert template["gpuZonalRedundancyDisabled"] is True
        assert container(template)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container(task(plan))["resources"]["limits"] == {
        "cpu": "8",
        "memory": "32Gi",
        "nvidia.com/gpu": "1",
    }


def test_a_task_may_take_as_long_as_cloud_run_allows_and_is_tried_again(plan: Plan) -> None:
    assert task(plan)["timeout"] == f"{LONGEST_GPU_TASK}s"
    assert task(plan)["maxRetries"] >= 1
    assert plans.only(plan, ":Job").inputs["template"]["taskCount"] == 1


def test_up_waits_longer_than_all_tries_of_the_job_take(standing: Rehearsal) -> None:
    timeouts = _timeouts(standing, JOB)
    tries = _live(standing, JOB)["template"]["template"]["maxRetries"] + 1
    assert min(timeouts["create"], timeouts["update"]) > tries * LONGEST_GPU_TASK


def _timeouts(rehearsal: Rehearsal, name: str) -> dict[str, float]:
    """Seconds of a resource's custom time-outs; the state has no entry where there is none."""
    resources = rehearsal.state()["deployment"]["resources"]
    (found,) = [
        each
        for each in resources
        if each["urn"].endswith(f"::{name}") and ":components:" not in each["type"].split("$")[-1]
    ]
    return found["customTimeouts"]


def test_the_probes_are_within_cloud_runs_limits(plan: Plan) -> None:
    startup, liveness = (container(revision(plan))[kind] for kind in ("startupProbe", "livenessProbe"))
    assert startup["httpGet"] == liveness["httpGet"] == {"path": "/health", "port": 8000}
    assert startup["initialDelaySeconds"] <= LONGEST_PROBE
    assert startup["periodSeconds"] * startup["failureThreshold"] <= LONGEST_PROBE
    for probe in (startup, liveness):
        assert probe["timeoutSeconds"] <= probe["periodSeconds"]


@pytest.mark.parametrize("stack", [STACK, "dev"])
def test_the_service_scales_to_zero_and_to_one_gpu(stack: str) -> None:
    with Rehearsal(stack) as rehearsal:
        scaling = revision(rehearsal.preview())["scaling"]
    assert scaling == {"minInstanceCount": 0, "maxInstanceCount": 1}


def test_instances_are_a_setting(plan_with: Callable[..., Plan]) -> None:
    scaling = revision(plan_with(minInstances="1", maxInstances="3"))["scaling"]
    assert scaling == {"minInstanceCount": 1, "maxInstanceCount": 3}


def test_an_instance_takes_as_many_requests_as_vllm_decodes_together(plan: Plan) -> None:
    command = container(revision(plan))["commands"]
    batch = command[command.index("--max-num-seqs") + 1]
    assert revision(plan)["maxInstanceRequestConcurrency"] == int(batch)


# Code and model


def test_nothing_that_is_mounted_can_be_written_to(plan: Plan) -> None:
    for template in (task(plan), revision(plan)):
        (volume,) = template["volumes"]
        assert volume["gcs"]["readOnly"] is True


def test_the_job_finds_every_module_and_recipe_of_the_package(plan: Plan) -> None:
    (volume,) = task(plan)["volumes"]
    (mount,) = container(task(plan))["volumeMounts"]
    folder = volume["gcs"]["mountOptions"][0].removeprefix("only-dir=")
    shipped = {each.inputs["name"] for each in plans.of_type(plan, ":BucketObject")}
    package = ROOT / "workloads" / "finetune"
    files = [*package.glob("*.py"), *package.glob("recipes/*.yaml")]
    assert shipped == {f"{folder}/{path.relative_to(package.parent).as_posix()}" for path in files}
    assert {"name": "PYTHONPATH", "value": mount["mountPath"]} in container(task(plan))["envs"]


def test_the_service_serves_the_model_that_the_job_makes(plan: Plan) -> None:
    made = container(task(plan))["commands"]
    (volume,) = revision(plan)["volumes"]
    (mount,) = container(revision(plan))["volumeMounts"]
    run = made[made.index("--run") + 1]
    assert volume["gcs"]["mountOptions"][0] == f"only-dir={run}/model"
    assert container(revision(plan))["commands"][:3] == ["vllm", "serve", mount["mountPath"]]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in container(revision(plan))["envs"]


# Network


def test_all_traffic_goes_through_the_stacks_subnet(standing: Rehearsal) -> None:
    (subnet,) = standing.cloud.of_type("gcp:compute/subnetwork:Subnetwork")
    templates = _live(standing, JOB)["template"]["template"], _live(standing, SERVICE)["template"]
    for template in templates:
        assert template["vpcAccess"] == {
            "egress": "ALL_TRAFFIC",
            "networkInterfaces": [{"subnetwork": subnet.id}],
        }


def test_with_a_subnet_of_yours_the_stack_makes_no_network() -> None:
    yours = Item(
        type="gcp:compute/subnetwork:Subnetwork",
        id="projects/rehearsal-project/regions/us-central1/subnetworks/shared",
        name="shared",
        inputs={},
        outputs={"name": "shared"},
    )
    with Rehearsal(STACK, {"subnet": "shared"}) as rehearsal:
        rehearsal.cloud.add(yours)
        rehearsal.up()
        networks = {item.id for item in rehearsal.cloud.items if item.type.startswith("gcp:compute")}
        (interface,) = _live(rehearsal, JOB)["template"]["template"]["vpcAccess"]["networkInterfaces"]
        rehearsal.destroy()
        assert rehearsal.cloud.items == [yours]
    assert networks == {yours.id}
    assert interface == {"subnetwork": yours.id}


# What waits for what


def test_the_service_waits_for_the_end_of_the_job(plan: Plan) -> None:
    assert plans.named(plan, JOB) in plans.awaited(plan, plans.named(plan, SERVICE))


def test_a_job_that_fails_leaves_the_service_unmade() -> None:
    with Rehearsal(STACK) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        with pytest.raises(RehearsalError, match=f"{JOB}.*has failed"):
            rehearsal.up()
        assert not [item for item in rehearsal.cloud.items if item.name == SERVICE]
        rehearsal.cloud.outcome = "Complete"
        rehearsal.up()
        assert rehearsal.preview().changed == 0


# What runs again, and what does not


@pytest.mark.parametrize("overrides", [{"maxInstances": "2"}, {"invokers": "user:me@example.com"}])
def test_what_concerns_the_service_alone_does_not_run_the_job(
    overrides: dict[str, str], next_plan: Callable[..., Plan]
) -> None:
    changed = plans.changes(next_plan(**overrides))
    assert changed
    assert JOB not in changed


def test_the_execution_has_a_name_that_cloud_run_takes(standing: Rehearsal) -> None:
    job = _live(standing, JOB)
    assert len(f"{job['name']}-{job['runExecutionToken']}") < 63


# The outputs


def test_the_curl_command_asks_for_the_model_that_is_served(standing: Rehearsal) -> None:
    outputs = _outputs(standing)
    served = container(_live(standing, SERVICE)["template"])["commands"]
    words = shlex.split(outputs["ask"])
    assert words[0] == "curl"
    assert f"{outputs['url']}/v1/chat/completions" in words
    assert "Authorization: Bearer $(gcloud auth print-identity-token)" in words
    asked = json.loads(words[words.index("--data") + 1])
    assert asked["model"] == served[served.index("--served-model-name") + 1] == "gemma-emoji"
    assert asked["messages"][0]["content"].startswith("Translate to emoji: ")
    assert all(outputs.values())


def _outputs(rehearsal: Rehearsal) -> dict[str, str]:
    resources = rehearsal.state()["deployment"]["resources"]
    (stack,) = [each for each in resources if each["type"] == "pulumi:pulumi:Stack"]
    return stack["outputs"]


# The end


def test_destroy_does_not_wait_for_the_hour_in_which_cloud_run_holds_the_subnet(standing: Rehearsal) -> None:
    for name in ("subnet", "network"):
        assert _timeouts(standing, f"{STACK}-{name}")["delete"] <= 5 * 60
