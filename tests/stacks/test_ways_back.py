"""Every setting is changed on a living stack and changed back, alone and beside a setting that it meets.

What happens was announced, and afterwards neither a preview nor a refresh finds anything.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest
import yaml

import stacks
from docs_generator import settings_reference
from rehearsal.errors import RehearsalError
from rehearsal.fakes import finished_run
from rehearsal.fakes.cloud import BUCKET, CLUSTER
from rehearsal.session import Rehearsal
from stacks.settings.model import keys_of
from stacks.settings.reader import SettingsError
from tests import plans
from tests.stacks.configuration import of_stack
from tests.stacks.served_runs import run_in
from tests.stacks.test_every_key_works import CHANGES, FROM_A_LIST, IN_A_SUBNET, needed, values_for

# Steps of a replacement, as an `up` reports them.
REPLACEMENTS: Final = ("create-replacement", "delete-replaced", "replace")
NODES: Final = {"accounts.nodes": "nodes-1@project-1.iam.gserviceaccount.com"}
KEY: Final = {"kmsKey": "projects/keys/locations/us-central1/keyRings/llm/cryptoKeys/mine"}
ON_SPOT_FIRST: Final = {"capacity.type": '["spot", "onDemand"]'}
# Settings of a stack that is up, and those that change beside them.
MEETINGS: Final[list[tuple[dict[str, str], str]]] = [
    ({"registry": "own"}, "kmsKey"),
    ({"registry": "own"}, "gcp:region"),
    ({"registry": "own"}, "gcp:project"),
    ({"registry": "own"}, "accounts.nodes"),
    (NODES, "holdUpgrades"),
    (NODES, "kmsKey"),
    (NODES, "gcp:region"),
    (NODES, "subnet"),
    (KEY, "gcp:region"),
    (IN_A_SUBNET, "registry"),
    (IN_A_SUBNET, "kmsKey"),
    (IN_A_SUBNET, "gcp:region"),
    (IN_A_SUBNET, "capacity.type"),
    (IN_A_SUBNET, "serve"),
    (FROM_A_LIST, "kmsKey"),
    (FROM_A_LIST, "registry"),
    (FROM_A_LIST, "accounts.nodes"),
    (ON_SPOT_FIRST, "gcp:region"),
    ({"serve": "hub"}, "gcp:region"),
    ({"serve": "hub"}, "accounts.nodes"),
    ({"serve": "hub"}, "capacity.type"),
    ({"accounts.finetune": NODES["accounts.nodes"]}, "accounts.serve"),
    ({"serve": "hub"}, "kmsKey"),
    ({"serve": "hub"}, "registry"),
    ({"alertEmail": "somebody@example.com"}, "kmsKey"),
    ({"egress": "googleAndHub"}, "controlPlane"),
    ({"controlPlane": "private", "authorizedNetworks": "10.1.0.0/24"}, "egress"),
    ({"ownNetwork.pods": "100.64.0.0/14"}, "clusterName"),
    ({"registry": "own"}, "hfToken"),
    (IN_A_SUBNET, "egress"),
]
# Settings of the build, which a stack with `imageUri` does not have.
OF_THE_BUILD: Final = (
    *("accounts.build", "buildPool", "buildRegion", "extraRequirements", "imageUri"),
    # The base image of the build is all that tpu-maxtext takes from a registry.
    "registry",
)
# One of each kind, in the stacks where they cost least. All others take minutes.
QUICK: Final = {
    ("serve", "", "egress"),
    ("serve", "", "ownNetwork.pods"),
    ("serve", "registry", "kmsKey"),
    ("serve", "registry", "gcp:region"),
    ("tpu-maxtext", "accounts.nodes", "holdUpgrades"),
}

OF_THE_CLUSTER: Final = (
    *("authorizedNetworks", "binaryAuthorization", "controlPlane", "egress", "holdUpgrades", "rbacGroup"),
    *("registry", "securityBulletins"),
)
# What stays while a setting changes and changes back.
KEPT: Final = {
    **dict.fromkeys(OF_THE_CLUSTER, CLUSTER),
    **dict.fromkeys(("kmsKey", "subnet", "ownNetwork.pods", "hfToken"), BUCKET),
}


def ids(rehearsal: Rehearsal, type_token: str | None) -> set[str]:
    return {item.id for item in rehearsal.cloud.items if item.type == type_token}


def happened(rehearsal: Rehearsal) -> dict[str, str]:
    """What the last `up` did, by name. The engine's own providers come and go without a preview."""
    steps = {name: step for step, name in rehearsal.last.steps if not name.startswith("default")}
    return {
        name: "replace" if step in REPLACEMENTS else step for name, step in steps.items() if step != "same"
    }


def problems(rehearsal: Rehearsal, settings: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with an `up` to other settings."""
    rehearsal.configure(settings)
    assert rehearsal.buckets
    finished_run.write_served_run(rehearsal.configuration.plain, rehearsal.buckets)
    try:
        announced = plans.changes(rehearsal.preview())
        rehearsal.up()
        # A preview may announce what depends on a change and then stays, and never leaves out what comes.
        if surprises := happened(rehearsal).items() - announced.items():
            yield f"not announced: {sorted(surprises)}"
        if again := plans.changes(rehearsal.preview()):
            yield f"a second preview changes {again}"
        if differences := rehearsal.refresh().changed:
            yield f"a refresh finds {differences} differences"
    except RehearsalError as error:
        yield str(error)


def stand(rehearsal: Rehearsal, settings: Mapping[str, str]) -> None:
    """Brings a stack up, with the finished runs that it serves."""
    if settings.get("serve") == "run":
        # The stack's own run, which it trains while it serves a model of the Hub.
        others = {key: value for key, value in settings.items() if key != "serveNotGood"}
        stand(rehearsal, {**others, "serve": "hub"})
        (bucket,) = ids(rehearsal, BUCKET)
        finished_run.write_run(run_in(rehearsal, f"{bucket}/{plans.outputs(rehearsal)['run']}"))
    rehearsal.configure(settings)
    assert rehearsal.buckets
    finished_run.write_served_run(rehearsal.configuration.plain, rehearsal.buckets)
    if rehearsal.preview().changed:
        rehearsal.up()


@cache
def living(stack: str) -> Rehearsal:
    return plans.open_to_the_end(Rehearsal(stack, plans.known_settings(stack, **plans.STANDING_SETTINGS)))


def changes(
    stack: str, context: Mapping[str, str], key: str
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Settings before and after a change, for every valid value of a key."""
    standing = plans.known_settings(stack, **plans.STANDING_SETTINGS)
    if key in OF_THE_BUILD:
        standing.pop("imageUri", None)
    before = {**standing, **needed(stack, key), **context}
    # A bucket of somebody else is never destroyed.
    after = {name: value for name, value in before.items() if (name, key) != ("forceDestroy", "bucket")}
    moves = key == "gcp:region" and "kmsKey" in context
    for value in values_for(stack, key, {} if moves else context):
        # A key is in the region of its stack.
        moved = {"kmsKey": re.sub(r"(?<=/locations/)[^/]+", value, context["kmsKey"])} if moves else {}
        yield before, {**after, **moved, key: value}
    if key in CHANGES:
        old, new = CHANGES[key]
        yield {**before, **old}, {**before, **new}


def is_valid(stack: str, settings: Mapping[str, str]) -> bool:
    """Whether a stack takes these settings, beside those of its file."""
    try:
        of_stack(stack, settings)
    except SettingsError:
        return False
    return True


def parameters() -> Iterator[Any]:
    for stack in plans.STACKS:
        keys = keys_of(stacks.scenario_modules()[stack].Settings)
        alone = [({}, key) for key in sorted(keys.keys() - {"scenario"})]
        for context, key in (*alone, *MEETINGS):
            if keys.keys() >= {*context, key} and is_valid(stack, context):
                case = (stack, next(iter(context), ""), key)
                marks = [] if case in QUICK else [pytest.mark.slow]
                yield pytest.param(stack, context, key, marks=marks, id="-".join(filter(None, case)))


@pytest.mark.parametrize(("stack", "context", "key"), [*parameters()])
def test_a_setting_changes_and_changes_back(stack: str, context: dict[str, str], key: str) -> None:
    rehearsal = living(stack)
    for before, after in changes(stack, context, key):
        stand(rehearsal, before)
        rehearsal.configure(after)
        plan = rehearsal.preview()
        if not context:
            known = yaml.safe_load(settings_reference.REPLACEMENTS.read_text())[stack].get(key, ())
            assert plans.replaced_types(plan) <= {*known}, "python -m tests.replacements"
        if not plan.changed:
            continue
        kept = ids(rehearsal, KEPT.get(key))
        assert [*problems(rehearsal, after)] == []
        assert [*problems(rehearsal, before)] == []
        assert ids(rehearsal, KEPT.get(key)) == kept
        return
    assert key in OF_THE_BUILD, f"no value of {key} changes a resource of {stack}"
    pytest.skip("an image that is built already stays")
