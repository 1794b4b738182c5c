"""Two resources that are one object at Google: who deletes the one deletes the other.

A member of an IAM policy is its resource, role, member and condition. Accounts, buckets and repositories that
exist before the stacks may be the same for several purposes and several stacks.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from typing import Any, Final

import pytest

import stacks
from operations.previews.stack_inputs import stack_file
from rehearsal.session import Rehearsal
from stacks.settings.accounts import purposes_of
from tests import plans

ACCOUNT: Final = "llm-all@rehearsal-project.iam.gserviceaccount.com"
OTHER: Final = "llm-two@rehearsal-project.iam.gserviceaccount.com"
# One of each for everything.
SHARED: Final = {
    "bucket": "gs://bucket-of-the-team",
    "registry": "us-docker.pkg.dev/rehearsal-project/mirror",
    "forceDestroy": "false",
}
CLOUD_RUN: Final = [stack for stack in plans.STACKS if "accounts.serve" in plans.keys_of_stack(stack)]


def one_account(stack: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with one account for everything that runs as one. A stack with an image builds none."""
    scenario = stack_file(stack)["scenario"]
    purposes = purposes_of(stacks.scenario_modules()[scenario].Settings)
    accounts = {f"accounts.{purpose}": ACCOUNT for purpose in purposes}
    if "imageUri" in settings:
        accounts.pop("accounts.build", None)
    return {**accounts, **plans.known_settings(scenario, **settings)}


def identities(state: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Type and id of every resource in a state, but the engine's own."""
    return Counter(
        (resource["type"], resource["id"])
        for resource in state["deployment"]["resources"]
        if resource.get("id") and not resource["type"].startswith("pulumi:")
    )


def is_member(identity: tuple[str, str]) -> bool:
    return identity[0].lower().endswith("iammember")


def lost(state: dict[str, Any]) -> set[tuple[str, str]]:
    """Type and id of every member that `destroy` takes away."""
    return {
        (resource["type"], resource["id"])
        for resource in state["deployment"]["resources"]
        if is_member((resource["type"], "")) and not resource.get("retainOnDelete")
    }


@cache
def state(stack: str) -> dict[str, Any]:
    """The state of a stack that shares its account, its bucket and its mirror with others."""
    with Rehearsal(stack, one_account(stack, SHARED)) as rehearsal:
        rehearsal.up()
        return rehearsal.state()


def granted(rehearsal: Rehearsal) -> set[str]:
    return {item.id for item in rehearsal.cloud.items if item.type.lower().endswith("iammember")}


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.mostly_slow(plans.STACKS, quick=["cloudrun-vllm"]))
def test_one_account_for_everything_has_every_right_once_or_keeps_it(stack: str) -> None:
    twice = {identity for identity, count in identities(state(stack)).items() if count > 1}
    assert not twice & lost(state(stack))
    assert all(is_member(identity) for identity in twice)


@pytest.mark.slow
@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.stacks_with("registry", "accounts.build"))
def test_a_build_and_nodes_of_one_account_never_lose_the_right_to_pull(stack: str) -> None:
    settings = {"registry": "own", "forceDestroy": "true"}
    with Rehearsal(stack, one_account(stack, settings)) as rehearsal:
        rehearsal.up()
        reading = {right for right in granted(rehearsal) if "artifactregistry.reader" in right}
        # Without the build, and then with other nodes.
        for change in ({"imageUri": plans.IMAGE}, {"accounts.nodes": OTHER}):
            rehearsal.configure({**one_account(stack, {**settings, **change})})
            rehearsal.up()
            assert {right for right in reading if "/mirror-" in right} <= granted(rehearsal)
            assert rehearsal.refresh().changed == 0
        rehearsal.destroy()
        assert [right for right in granted(rehearsal) if "/mirror-" in right] == []


@pytest.mark.parametrize("stack", CLOUD_RUN)
def test_training_and_server_of_one_account_do_not_take_each_other_s_rights(stack: str) -> None:
    both = one_account(stack, plans.STANDING_SETTINGS)
    with Rehearsal(stack, both) as rehearsal:
        rehearsal.up()
        before = granted(rehearsal)
        rehearsal.configure({**both, "serve": "nothing"})
        rehearsal.up()
        of_the_server = before - granted(rehearsal)
        assert of_the_server and all(f"/serve of {stack}/" in right for right in of_the_server)
        rehearsal.configure({**both, "accounts.finetune": OTHER})
        rehearsal.up()
        # Two accounts change places.
        rehearsal.configure({**both, "accounts.serve": OTHER})
        rehearsal.up()
        assert granted(rehearsal) == {
            right.replace(ACCOUNT, OTHER) if f"/serve of {stack}/" in right else right for right in before
        }
        assert rehearsal.refresh().changed == 0


@pytest.mark.parametrize(
    ("one", "another"),
    [
        pytest.param(*pair, marks=[] if pair == ("cloudrun-vllm", "dev") else [pytest.mark.slow])
        for pair in combinations(sorted({*plans.STACKS, "dev"}), 2)
    ],
)
def test_a_destroy_takes_no_right_of_another_stack(one: str, another: str) -> None:
    theirs = {identity for identity in identities(state(another)) if is_member(identity)}
    assert theirs
    assert not lost(state(one)) & theirs
    assert not lost(state(another)) & {*identities(state(one))}
