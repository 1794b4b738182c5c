"""Every stack as a strict company has it: its subnet, key, accounts, registry and build pool."""

import copy

import pytest

import stacks
from rehearsal.session import Rehearsal
from stacks.settings.accounts import purposes_of
from tests import plans

HOST, KEYS, MIRROR = "host-project", "keys-project", "us-central1-docker.pkg.dev/mirror-project/images"


def settings(stack: str) -> dict[str, str]:
    """Everything that exists before the stack, but its bucket, in other projects."""
    region = plans.region_of(stack)
    purposes = purposes_of(stacks.scenario_modules()[stack].Settings)
    accounts = {
        f"accounts.{purpose}": f"llm-{purpose}@rehearsal-project.iam.gserviceaccount.com"
        for purpose in purposes
    }
    shape = {
        "subnet": f"projects/{HOST}/regions/{region}/subnetworks/shared",
        "network": "corp",
        "podsRange": "pods",
        "servicesRange": "services",
        "kmsKey": f"projects/{KEYS}/locations/{region}/keyRings/llm/cryptoKeys/stacks",
        "registry": MIRROR,
        "buildPool": f"projects/{HOST}/locations/{region}/workerPools/closed",
        "controlPlane": "dns",
        "ingress": "internal",
        "egress": "googleAndHub",
        "binaryAuthorization": "project",
        "rbacGroup": "gke-security-groups@example.com",
        "securityBulletins": "bulletins",
        "alertEmail": "platform@example.com",
        "forceDestroy": "true",
    }
    return {**plans.known_settings(stack, **shape), **accounts}


def test_a_stack_in_the_closed_shape_has_every_setting_of_it() -> None:
    keys = {key for stack in plans.STACKS for key in settings(stack)}
    assert {"subnet", "kmsKey", "registry", "buildPool", "controlPlane", "ingress"} <= keys


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.mostly_slow(plans.STACKS, quick=["cloudrun-vllm", "l4-kueue"]))
def test_it_lives_from_up_to_destroy_and_changes_nothing_of_others(stack: str) -> None:
    with Rehearsal(stack, settings(stack)) as rehearsal:
        before = copy.deepcopy(rehearsal.cloud.foreign)
        ids = {item.id for item in before}
        for setting in {"subnet", "kmsKey"} & settings(stack).keys():
            assert settings(stack)[setting] in ids
        accounts = [email for key, email in settings(stack).items() if key.startswith("accounts.")]
        assert all(any(email in name for name in ids) for email in accounts)
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        assert not [item.id for item in rehearsal.cloud.items if item.type.startswith("gcp:compute")]
        staying = plans.rights_that_stay(rehearsal)
        rehearsal.destroy()
        assert [item for item in rehearsal.cloud.items if item.id not in staying] == []
        assert rehearsal.cloud.foreign == before
