"""Every Google resource of the plans follows the API's own description: fields, enums, formats."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cloud.discovery import discovery
from cloud.inputs import is_unknown
from engine.plan import Plan, Planned
from rehearsal.stock import QUEUED_FLEX_START
from stacks.settings.reader import SettingsError
from tests import plans
from tests.cloud.api_bodies import BODIES, KEYED, MOVED, WITHOUT_BODY, Translation
from tests.stacks.configuration import of_stack
from tests.stacks.test_every_key_works import needed, values_for

EMAIL = {"alertEmail": "somebody@example.com"}


def key_in(stack: str) -> str:
    return f"projects/keys/locations/{plans.region_of(stack)}/keyRings/llm/cryptoKeys/mine"


POLICIES = {
    "binaryAuthorization": "project",
    "rbacGroup": "gke-security-groups@example.com",
    "securityBulletins": "bulletins",
}
# Settings with resources or fields that no stack file brings.
SHAPES: list[tuple[str, dict[str, str]]] = [
    *((stack, {}) for stack in plans.STACKS),
    *((stack, EMAIL) for stack in ("cloudrun-vllm", "l4-kueue", "tpu-maxtext")),
    ("a4-accelerate", {"nodes": "2", "capacity.type": QUEUED_FLEX_START, "capacity.zone": "us-central1-b"}),
    ("a4-ray", {"kmsKey": key_in("a4-ray"), "egress": "googleAndHub", **POLICIES}),
    ("cloudrun-vllm", {"kmsKey": key_in("cloudrun-vllm"), "binaryAuthorization": "project"}),
    ("cloudrun-vllm", {"invokers": "user:me@example.com"}),
    ("l4-kueue", {"registry": "own", "kmsKey": key_in("l4-kueue")}),
    ("l4-kueue", {"servingReplicas": '{"min": 1, "max": 3}'}),
    ("tpu-maxtext", {"controlPlane": "private", "authorizedNetworks": "10.1.0.0/24"}),
    ("tpu-maxtext", {"capacity.type": "flexStart"}),
]


def body_of(resource: Planned, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    """What is sent for a resource, and the names that convention does not tell."""
    api, name = BODIES[resource.type]
    translation = Translation(discovery(api))
    return translation.body(name, inputs), translation.moved


def problems(resource: Planned, inputs: Mapping[str, Any]) -> Iterator[str]:
    if resource.type in BODIES:
        api, name = BODIES[resource.type]
        yield from discovery(api).resource_problems(name, body_of(resource, inputs)[0])
    elif resource.type == "gcp:monitoring/dashboard:Dashboard" and not is_unknown(inputs["dashboardJson"]):
        dashboard = json.loads(inputs["dashboardJson"])
        yield from discovery("monitoring.v1").resource_problems("Dashboard", dashboard)
    elif resource.type not in WITHOUT_BODY:
        yield "no row of the tables in api_bodies.py has its type"


def of_google(plan: Plan) -> list[Planned]:
    return [resource for resource in plan.resources if resource.type.startswith("gcp:")]


def all_problems(plan: Plan) -> list[str]:
    return [
        f"{resource.name}: {problem}"
        for resource in of_google(plan)
        for problem in problems(resource, resource.inputs)
    ]


def planned(stack: str, settings: Mapping[str, str]) -> Plan:
    return plans.shipped(stack, **{key.replace(".", "_"): value for key, value in settings.items()})


@pytest.mark.parametrize(("stack", "settings"), SHAPES)
def test_google_knows_every_field_and_value_of_a_plan(stack: str, settings: dict[str, str]) -> None:
    assert not sorted(set(all_problems(planned(stack, settings))))


# Settings that take resources away, so that a plan with another setting would not show what that does.
TAKES_AWAY = (
    "accounts.",
    "bucket",
    "imageUri",
    "network",
    "podsRange",
    "serve",
    "servicesRange",
    "subnet",
    "trial",
)


def is_valid(stack: str, settings: Mapping[str, str]) -> bool:
    try:
        of_stack(stack, dict(settings))
    except SettingsError:
        return False
    return True


def together(stack: str) -> Iterator[dict[str, str]]:
    """Every value of every setting, in as few plans as can have them all."""
    left = [
        {**needed(stack, key), key: value}
        for key in sorted(plans.keys_of_stack(stack) - {"scenario"})
        for value in values_for(stack, key, {})
    ]
    alone = [settings for settings in left if any(key.startswith(TAKES_AWAY) for key in settings)]
    yield from alone
    left = [settings for settings in left if settings not in alone]
    while left:
        joined, later = left[0], []
        for settings in left[1:]:
            fits = all(joined.get(key, value) == value for key, value in settings.items())
            if fits and is_valid(stack, joined | settings):
                joined = joined | settings
            else:
                later.append(settings)
        yield joined
        left = later


@pytest.mark.slow
@pytest.mark.parametrize("stack", plans.STACKS)
def test_google_knows_them_with_every_value_of_every_setting(stack: str) -> None:
    unknown: set[str] = set()
    for settings in together(stack):
        unknown.update(all_problems(plans.previewed(stack, settings)))
    assert not unknown


def test_the_tables_have_no_row_that_no_plan_uses() -> None:
    every = [resource for stack, settings in SHAPES for resource in of_google(planned(stack, settings))]
    with_body = [resource for resource in every if resource.type in BODIES]
    moved = set().union(*(body_of(resource, resource.inputs)[1] for resource in with_body))
    assert moved == {(name, key) for name, fields in MOVED.items() for key in fields}
    assert {resource.type for resource in every} == {*BODIES, *WITHOUT_BODY}
    assert all(f'"{key}"' in json.dumps([resource.inputs for resource in every]) for key in KEYED)


# A resource of tpu-maxtext, a path in its inputs, a wrong value, and what is said of it.
WRONG = [
    ("NodePool", ("nodeConfig", "diskTyp"), "pd-ssd", "Unknown name \"diskTyp\" at 'config'"),
    ("NodePool", ("initialNodeCount",), "four", "initialNodeCount is no int32"),
    ("Cluster", ("datapathProvider",), "CILIUM", "networkConfig.datapathProvider"),
    ("Cluster", ("maintenancePolicy", "dailyWindow"), {}, 'Unknown name "dailyWindow"'),
    ("Bucket", ("softDeletePolicy", "retentionDurationSeconds"), "a week", "softDeletePolicy"),
    ("RouterNat", ("natIpAllocateOption",), "AUTO", "natIpAllocateOption"),
]


@pytest.mark.parametrize(("kind", "path", "value", "message"), WRONG)
def test_what_google_does_not_know_is_found(
    kind: str, path: tuple[str, ...], value: Any, message: str
) -> None:
    resource = next(
        resource for resource in of_google(planned("tpu-maxtext", {})) if resource.type.endswith(f":{kind}")
    )
    inputs = copy.deepcopy(dict(resource.inputs))
    block = inputs
    for step in path[:-1]:
        block = block.setdefault(step, {})
    block[path[-1]] = value
    (problem,) = problems(resource, inputs)
    assert message in problem
