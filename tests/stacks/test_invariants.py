"""What must hold of every stack, on the real engine."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cloud.quantity import quantity
from engine.plan import Plan
from rehearsal import Rehearsal, RehearsalError
from tests import inventory, plans

TOKEN = "hf_planted_in_a_test"
# dev is cloudrun-vllm with other values.
STACKS = sorted({path.stem for path in inventory.FOLDER.glob("*.yaml")} - {"dev"})
# Roles that can be given on nothing smaller than a project, and who has them.
WIDE = {
    ("nodes-role", "roles/container.defaultNodeServiceAccount"),
    ("builder-log", "roles/logging.logWriter"),
}


@dataclass(frozen=True)
class Life:
    """What one rehearsal of a stack showed, from the first preview to the end."""

    plan: Plan
    state: str
    changed_by_nothing: tuple[int, int]
    left_by_refused_destroy: bool
    left: list[str]


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def life(stack: str) -> Iterator[Life]:
    settings = {"hfToken": TOKEN, "imageUri": plans.IMAGE}
    with Rehearsal(stack, {**settings, "forceDestroy": "false"}) as rehearsal:
        plan = rehearsal.preview()
        rehearsal.up()
        state = json.dumps(rehearsal.state())
        changed = rehearsal.preview().changed, rehearsal.up().changed
        before = sorted(item.key for item in rehearsal.cloud.items)
        with pytest.raises(RehearsalError, match="protected"):
            rehearsal.destroy()
        untouched = sorted(item.key for item in rehearsal.cloud.items) == before
        rehearsal.configure({**settings, "forceDestroy": "true"})
        rehearsal.up()
        rehearsal.destroy()
        yield Life(plan, state, changed, untouched, [item.name for item in rehearsal.cloud.items])


@pytest.fixture(scope="module")
def plan(life: Life) -> Plan:
    return life.plan


# Identities and what they may do


def test_no_identity_has_a_primitive_role(plan: Plan) -> None:
    given = [role for _, role in plans.roles(plan)]
    assert given
    assert not {"roles/owner", "roles/editor", "roles/viewer"} & set(given)


def test_no_role_is_wider_than_one_bucket_repository_secret_or_service_where_it_can_be(
    stack: str, plan: Plan
) -> None:
    wide = {
        (resource.name.removeprefix(f"{stack}-"), role)
        for resource, role in plans.roles(plan)
        if resource.type == "gcp:projects/iAMMember:IAMMember"
    }
    assert wide <= WIDE


def test_pulumis_suffix_still_fits_into_the_names_of_the_accounts(plan: Plan) -> None:
    for account in plans.of_type(plan, ":Account"):
        assert len(f"{account.name}-1234567") <= 30, account.name


# The token


def test_the_token_is_never_in_plain_text_in_plan_or_state(life: Life) -> None:
    assert "secretData" in life.state
    assert TOKEN not in life.plan.as_json()
    assert TOKEN not in life.state


def test_containers_get_the_token_by_reference(plan: Plan) -> None:
    for name, container in plans.containers(plan):
        for variable in container.get("env", []):
            if variable["name"] == "HF_TOKEN":
                assert "value" not in variable, name
                reference = variable["valueFrom"]["secretKeyRef"]
                assert (reference["name"], reference["key"]) == ("hf-token", "token"), name
                assert not reference.get("optional"), name


# Pods


def test_every_pod_has_requests_and_limits(plan: Plan) -> None:
    for name, container in plans.containers(plan):
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], name
        assert {"cpu", "memory", "ephemeral-storage"} <= set(resources["requests"]), name


def test_every_image_is_by_digest(plan: Plan) -> None:
    images = re.findall(r'"image": "([^"]*)"', plan.as_json())
    assert images
    for image in images:
        assert re.search(r"@sha256:[0-9a-f]{64}$", image)


def test_nothing_runs_privileged_or_as_root(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume], name
    for name, container in plans.containers(plan):
        context = container["securityContext"]
        assert context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, name


def test_every_scratch_volume_is_sized_within_what_its_pod_asks_for(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        asked = spec["containers"][0]["resources"]["requests"]
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume:
                kind = "memory" if volume["emptyDir"].get("medium") == "Memory" else "ephemeral-storage"
                assert (quantity(volume["emptyDir"]["sizeLimit"]) or 0) < (quantity(asked[kind]) or 0), name


# The course of a stack


def test_changing_nothing_changes_nothing(life: Life) -> None:
    assert life.changed_by_nothing == (0, 0)


def test_nothing_is_destroyed_without_force_destroy(life: Life) -> None:
    assert life.left_by_refused_destroy


def test_everything_is_destroyed_with_it(life: Life) -> None:
    assert life.left == []
