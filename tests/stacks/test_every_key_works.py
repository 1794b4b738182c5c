"""Every key of every scenario does something: another value changes the plan, an output or a warning."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import pytest
from pydantic.fields import FieldInfo

import stacks
from components.image.image import Image
from engine.project import ROOT
from rehearsal.session import Rehearsal
from stacks.settings.model import choices, hint_of, is_secret, keys_of, without_none
from stacks.settings.reader import SettingsError
from tests import inventory, plans
from tests.stacks.configuration import of_stack
from tests.stacks.declared import declared

# The ends of automatic names, the ids of providers, and a digest of automatic names.
AUTOMATIC: Final = (
    r"(?<=-)[0-9a-f]{7}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<=\"content\": \")[0-9a-f]{8}\b"
)
REGIONS: Final = ("us-central1", "europe-west4", "us-east5")
IN_A_SUBNET: Final = {"subnet": "shared", "network": "corp", "podsRange": "pods", "servicesRange": "services"}
FROM_A_LIST: Final = {"capacity.type": '["flexStart", "spot"]', "capacity.zone": "us-central1-b"}
# Other settings that a key needs to have an effect.
NEEDS: Final[Mapping[str, dict[str, str]]] = {
    **dict.fromkeys(IN_A_SUBNET, IN_A_SUBNET),
    "authorizedNetworks": {"controlPlane": "public", "authorizedNetworks": "203.0.113.0/24"},
    "capacity.minutes": FROM_A_LIST,
    "capacity.reservation": {"capacity.type": "reservation", "capacity.reservation": "one-of-mine"},
    "capacity.zone": FROM_A_LIST,
    "controlPlane": {"controlPlane": "private", "authorizedNetworks": "10.1.0.0/24"},
    "serveNotGood": {"serve": "run"},
    # Only own has a machine to choose.
    "transport": {
        "nodes": "2",
        "machine": "a4-highgpu-8g",
        "capacity.type": "reservation",
        "capacity.reservation": "one-of-mine",
    },
}
# Settings before and after, where a stack file has the key in another spelling.
CHANGES: Final[Mapping[str, tuple[dict[str, str], dict[str, str]]]] = {
    "servingReplicas.max": ({"servingReplicas": '{"max": 2}'}, {"servingReplicas": '{"max": 3}'}),
    "servingReplicas.min": ({"servingReplicas": '{"max": 3}'}, {"servingReplicas": '{"min": 2, "max": 3}'}),
}
# Values that neither type, limits, examples nor a stand-in for rehearsals tell. A stack takes those that are
# valid for it.
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizedNetworks": ("198.51.100.0/24",),
    "buildPool": tuple(f"projects/host-project/locations/{region}/workerPools/closed" for region in REGIONS),
    "buildRegion": REGIONS,
    "capacity.minutes": ("[31, 61]",),
    "capacity.zone": tuple(f"{region}-a" for region in REGIONS),
    "clusterName": ("another",),
    "code": ("workloads/launch",),
    "command": ('["python", "another.py"]',),
    "dataset": ("hf://datasets/somebody/rows/*.parquet",),
    # A file for each image.
    "extraRequirements": tuple(map(str, sorted(ROOT.glob("workloads/*/requirements*.txt")))),
    "gcp:region": REGIONS,
    "internalRanges": ("20.0.0.0/16",),
    "invokers": ("user:me@example.com",),
    "kmsKey": tuple(f"projects/keys/locations/{region}/keyRings/llm/cryptoKeys/mine" for region in REGIONS),
    "moreRuns": ('["gs://rehearsal-runs/another-4567cdef"]',),
    "ownNetwork.machines": ("172.20.0.0/20",),
    "ownNetwork.pods": ("100.64.0.0/14",),
    "ownNetwork.services": ("172.20.16.0/20",),
    "recipe": tuple(path.stem for path in sorted(ROOT.glob("workloads/**/recipes/*.yaml"))),
    "recipeSet": ('{"training": {"seed": 7}}', '{"steps": 7}'),
    "run": ("my-run",),
    "secrets": ('{"API_KEY": "of-a-test"}',),
    "servingModel": ("google/gemma-3-4b-it",),
    "stopExitCodes": ("[2, 3]",),
    "variables": ('{"MODE": "fast"}',),
    "vllmArguments": ('["--max-num-seqs=7"]',),
    "wandbKey": ("k" * 40,),
    "zone": ("us-east5-a",),
    "zones": ('["us-central1-b"]',),
}


def field_of(stack: str, key: str) -> FieldInfo:
    return keys_of(stacks.scenario_modules()[stack].Settings)[key]


def derived(field: FieldInfo) -> Iterator[str]:
    """Texts that a field may take, by its type, its limits, its examples and its stand-in."""
    kind = without_none(field.annotation)
    if kind is bool:
        yield from ("true", "false")
    elif kind is int:
        limits = [
            getattr(data, name) for data in field.metadata for name in ("ge", "le") if hasattr(data, name)
        ]
        yield from (str(limit + step) for limit in limits for step in (0, 1, -1))
    elif kind is Image:
        yield f"docker.io/team/image@sha256:{'b' * 64}"
    yield from choices(field.annotation)
    for example in [*(field.examples or ()), hint_of(field).fake]:
        yield re.sub(r"[A-Z][A-Z_]+", lambda word: f"{word[0].lower().replace('_', '-')}-1", str(example))
        if example:
            yield f"{example}2"


def values_for(stack: str, key: str, context: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Valid values of a key, with the settings that it needs and others of a context."""
    for text in (*VALUES.get(key, ()), *derived(field_of(stack, key))):
        try:
            of_stack(stack, {**needed(stack, key), **context, key: text})
        except SettingsError:
            continue
        yield text


def needed(stack: str, key: str) -> dict[str, str]:
    return plans.known_settings(stack, **NEEDS.get(key, {}))


@cache
def program(stack: str, settings: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(declared(stack, dict(settings)))


@cache
def created(stack: str, settings: tuple[tuple[str, str], ...]) -> str:
    with Rehearsal(stack, dict(settings)) as rehearsal:
        rehearsal.up()
        plan = plans.standing_plan(rehearsal)
    resources = [
        (resource.urn, resource.inputs, resource.options, sorted(resource.dependencies))
        for resource in sorted(plan.resources, key=lambda resource: resource.urn)
        # The provider of dynamic resources has the whole configuration among its inputs.
        if resource.type != "pulumi:providers:pulumi-python"
    ]
    return re.sub(AUTOMATIC, "", json.dumps([resources, plan.warnings], default=str))


FACTS: Final = (program, created)


def parameters() -> Iterator[Any]:
    seen: set[str] = set()
    # A key is quickly tried in the scenario with the fewest resources.
    for stack in sorted(plans.STACKS, key=lambda stack: len(inventory.written(stack))):
        keys = keys_of(stacks.scenario_modules()[stack].Settings)
        # Another scenario has other keys. No plan shows the value of a token that is always there, and
        # test_run_secrets.py tests it.
        tokens = {key for key in keys if is_secret(keys[key]) and keys[key].is_required()}
        for key in sorted(keys.keys() - tokens - {"scenario"}):
            yield pytest.param(stack, key, marks=[pytest.mark.slow] if key in seen else [])
            seen.add(key)


@pytest.mark.parametrize(("stack", "key"), [*parameters()])
def test_another_value_of_a_key_changes_something(stack: str, key: str) -> None:
    context = needed(stack, key)
    changes = [(context, {**context, key: value}) for value in values_for(stack, key)]
    if key in CHANGES:
        changes = [CHANGES[key]]
    assert changes, f"name a value of {key} in VALUES, and in NEEDS the settings that it needs"
    # In most cases what the program declares shows it. An `up` shows what follows from Google's answers too.
    different = (
        facts(stack, tuple(before.items())) != facts(stack, tuple(after.items()))
        for facts in FACTS
        for before, after in changes
    )
    assert any(different), f"{key} of {stack} does nothing: {changes}"


def dependent() -> Iterator[Any]:
    seen: set[str] = set()
    for stack in plans.STACKS:
        keys = keys_of(stacks.scenario_modules()[stack].Settings)
        for key in sorted(keys.keys() & {*NEEDS, *CHANGES}):
            yield pytest.param(stack, key, marks=[pytest.mark.slow] if key in seen else [])
            seen.add(key)


@pytest.mark.parametrize(("stack", "key"), [*dependent()])
def test_a_key_without_the_settings_that_it_needs_is_refused_or_changes_something(
    stack: str, key: str
) -> None:
    before, accepted = plans.known_settings(stack), []
    for value in values_for(stack, key):
        with suppress(SettingsError):
            # The default value in the stack file changes nothing.
            if of_stack(stack, {**before, key: value}) != of_stack(stack, before):
                accepted.append({**before, key: value})
    declared_before = program(stack, tuple(before.items()))
    different = (program(stack, tuple(after.items())) != declared_before for after in accepted)
    assert not accepted or any(different), f"{key} of {stack} does nothing without {NEEDS.get(key)}"


@pytest.mark.parametrize("facts", FACTS)
def test_the_same_settings_twice_differ_in_nothing(facts: Any) -> None:
    assert facts("cloudrun-vllm", ()) == facts.__wrapped__("cloudrun-vllm", ())
