"""A key of the user's that encrypts what a stack creates: the setting `kmsKey`."""

from typing import Any

import pytest

from cloud.services.kms import AGENTS
from cloud.services.secretmanager import VERSION
from rehearsal.fakes.cloud import BUCKET
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.configuration import problems

STACK = plans.one_with("kmsKey", "hfToken")


def key_in(region: str) -> str:
    return f"projects/keys-project/locations/{region}/keyRings/llm/cryptoKeys/stacks"


def key(stack: str) -> str:
    return key_in(plans.region_of(stack))


def encrypted(stack: str) -> dict[str, Any]:
    """Inputs by name of all that Google can encrypt with a key, the stack's own mirror among it."""
    plan = plans.shipped(stack, kmsKey=key(stack), **plans.known_settings(stack, registry="own"))
    return {resource.name: resource.inputs for resource in plan.resources if resource.type in AGENTS}


@pytest.mark.parametrize("stack", plans.STACKS)
def test_everything_that_takes_a_key_has_it(stack: str) -> None:
    without = [name for name, inputs in encrypted(stack).items() if key(stack) not in str(inputs)]
    assert without == []


@pytest.mark.parametrize("stack", plans.STACKS)
def test_without_the_setting_there_is_no_key(stack: str) -> None:
    assert "cryptoKeys" not in plans.text(plans.shipped(stack))


@pytest.mark.parametrize("stack", plans.stacks_with("clusterName"))
def test_objects_and_boot_disks_of_a_cluster_have_the_key(stack: str) -> None:
    plan = plans.shipped(stack, kmsKey=key(stack))
    cluster = plans.only(plan, "container/cluster:Cluster").inputs
    assert cluster["databaseEncryption"] == {"state": "ENCRYPTED", "keyName": key(stack)}
    pools = plans.of_type(plan, "container/nodePool:NodePool")
    nodes = [pool.inputs["nodeConfig"] for pool in pools]
    if not pools:
        nodes = [cluster["clusterAutoscaling"]["autoProvisioningDefaults"]]
    assert {config["bootDiskKmsKey"] for config in nodes} == {key(stack)}


def test_a_secret_is_kept_in_the_key_s_region_alone() -> None:
    secret = plans.only(plans.shipped(STACK, kmsKey=key(STACK)), "secretmanager/secret:Secret").inputs
    (replica,) = secret["replication"]["userManaged"]["replicas"]
    encryption = {"kmsKeyName": key(STACK)}
    assert replica == {"location": plans.region_of(STACK), "customerManagedEncryption": encryption}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            key_in("us-east5"),
            "kmsKey: the key is in us-east5 and the stack in us-central1; name a key in",
        ),
        ("stacks", "kmsKey: 'stacks' is not the full name of a key, projects/P/locations/REGION"),
        (
            f"{key_in('us-central1')}/cryptoKeyVersions/1",
            f"kmsKey: '{key_in('us-central1')}/cryptoKeyVersions/1' is not the full name",
        ),
    ],
)
def test_a_wrong_key_is_one_message(value: str, message: str) -> None:
    (problem,) = problems({"llm-stacks:kmsKey": value})
    assert problem.startswith(message)


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.mostly_slow(plans.STACKS, quick=["a4-accelerate", "cloudrun-vllm"]))
def test_a_stack_that_is_up_gets_a_key_and_keeps_its_bucket_and_its_run(stack: str) -> None:
    forced = plans.known_settings(stack, forceDestroy="true")
    with Rehearsal(stack, forced) as rehearsal:
        rehearsal.up()
        run = plans.outputs(rehearsal).get("run")
        buckets = {item.id for item in rehearsal.cloud.of_type(BUCKET)}
        versions = {item.id for item in rehearsal.cloud.of_type(VERSION.type)}
        rehearsal.configure({"kmsKey": key(stack), **forced})
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        assert plans.outputs(rehearsal).get("run") == run
        assert {item.id for item in rehearsal.cloud.of_type(BUCKET)} == buckets
        # A key encrypts only the versions that follow, so the token is stored again.
        assert not versions & {item.id for item in rehearsal.cloud.of_type(VERSION.type)}
        rehearsal.destroy()
        assert rehearsal.cloud.items == []
