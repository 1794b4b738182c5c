"""What tests ask of a plan."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

import stacks
from engine import plan as engine_plan
from engine.plan import Plan, Planned
from engine.project import known_stacks
from operations.previews.stack_inputs import stack_file
from rehearsal.session import Rehearsal
from stacks.reader import keys_of
from tests.once import kept_open, once

# With the setting `imageUri` a stack builds no image; tests/stacks/test_runs.py has those that do.
IMAGE: Final = f"us-docker.pkg.dev/rehearsal-project/images/finetune@sha256:{'a' * 64}"


# Stacks of a scenario's own name: the others run one of these with other values.
STACKS: Final = [stack for stack in known_stacks() if stack_file(stack)["scenario"] == stack]
# What runs once: an update in place runs nothing.
_ONCE: Final = (":ray.io/v1:RayJob", ":batch/v1:Job", "cloudrun:Execution")
# Whatever trains, in a stack that does.
_TRAININGS: Final = (":ray.io/v1:RayJob", ":batch/v1:Job", "cloudrunv2/job:Job")
_stood: Final[dict[Rehearsal, Plan]] = {}


def mostly_slow(stacks: Iterable[str], *, quick: Collection[str]) -> list[Any]:
    """Stacks to parametrize a test with, of which only those that are `quick` run without `--slow`."""
    return [pytest.param(each, marks=[pytest.mark.slow] * (each not in quick)) for each in stacks]


@cache
def settings_of(stack: str) -> frozenset[str]:
    """The keys that a stack file of this scenario may have, such as `capacity.type`."""
    return frozenset(keys_of(stacks.scenarios()[stack].Settings))


def taking(*keys: str) -> list[str]:
    """The stacks whose scenario has all of these settings."""
    return [stack for stack in STACKS if settings_of(stack).issuperset(keys)]


def keys(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by their keys; `capacity_type` is `capacity.type`."""
    return {key.replace("_", "."): value for key, value in settings.items()}


def given(stack: str, **settings: str) -> dict[str, str]:
    """Those settings that the scenario has."""
    return {key: value for key, value in keys(settings).items() if key in settings_of(stack)}


def made(rehearsal: Rehearsal) -> Plan:
    """What exists, as a plan in which everything is known."""
    if rehearsal in _stood:
        return _stood[rehearsal]
    resources = rehearsal.state()["deployment"].get("resources") or ()
    steps = [{"urn": each["urn"], "op": "same", "newState": each} for each in resources]
    return engine_plan.read(json.dumps({"steps": steps}))


def outputs(rehearsal: Rehearsal) -> dict[str, str]:
    """The outputs of a stack that stands."""
    resources = rehearsal.state()["deployment"]["resources"]
    (stack,) = [each for each in resources if each["type"] == "pulumi:pulumi:Stack"]
    return stack["outputs"]


def training(plan: Plan) -> Planned:
    """The one resource of a plan that trains."""
    (found,) = [each for each in plan.resources if each.type.endswith(_TRAININGS)]
    return found


def run_once(plan: Plan) -> Planned:
    """The one resource of a plan that runs the training once: a Job, or on Cloud Run an execution of one."""
    (found,) = [each for each in plan.resources if each.type.endswith(_ONCE)]
    return found


def runs(plan: Plan) -> set[str]:
    """Names of the runs that a plan's trainings are started with."""
    trainings = [each.inputs for each in plan.resources if each.type.endswith(_TRAININGS)]
    return set(re.findall(r'--run(?:[= ]|", ")([\w.-]+)', json.dumps(trainings)))


@cache
def shipped(stack: str, **settings: str) -> Plan:
    """The first plan of a stack with settings over its file's; not to be changed, as tests share it."""
    return once(("plan", stack, settings), lambda: previewed(stack, keys(settings)))


def previewed(stack: str, overrides: Mapping[str, str]) -> Plan:
    """A first plan of a stack, by a rehearsal that stays open: to start one takes as long as to plan."""
    rehearsal = _empty(stack)
    rehearsal.configure(overrides)
    return rehearsal.preview()


@cache
def _empty(stack: str) -> Rehearsal:
    return kept_open.enter_context(Rehearsal(stack))


@cache
def standing(stack: str) -> Rehearsal:
    """The stack when it is up, with an image that was given to it; not to be changed, as tests share it."""
    rehearsal = kept_open.enter_context(Rehearsal(stack, {"imageUri": IMAGE}))
    rehearsal.up()
    _stood[rehearsal] = made(rehearsal)
    return rehearsal


@cache
def planned_next(stack: str, **settings: str) -> Plan:
    """What the next `up` of a stack that stands would do, with other settings or as it is."""
    rehearsal = standing(stack)
    rehearsal.configure({"imageUri": IMAGE, **keys(settings)})
    return rehearsal.preview()


def of_type(plan: Plan, ending: str) -> list[Planned]:
    """Resources whose type ends in `ending`, such as `:RayJob`."""
    return [resource for resource in plan.resources if resource.type.endswith(ending)]


def only(plan: Plan, ending: str) -> Planned:
    """The one resource of a type."""
    (resource,) = of_type(plan, ending)
    return resource


def named(plan: Plan, name: str) -> Planned:
    """The one resource that is no component and has this logical name."""
    (resource,) = [each for each in plan.resources if each.name == name and ":components:" not in each.type]
    return resource


def changes(plan: Plan) -> dict[str, str]:
    """What would happen to each resource that would not stay as it is, by its name."""
    return {each.name: each.op for each in plan.resources if each.op != "same"}


def pods(plan: Plan) -> Iterator[tuple[Planned, dict[str, Any]]]:
    """Every pod spec of a plan with the resource that makes the pods."""
    for resource in plan.resources:
        if resource.type.startswith("kubernetes:"):
            for spec in _pod_specs(resource.inputs):
                yield resource, spec


def pod_specs(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod spec of a plan with the name of the resource that it is in."""
    for resource, spec in pods(plan):
        yield resource.name, spec


def containers(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every container of a plan, init containers too, with `resource/container` as its name."""
    for name, spec in pod_specs(plan):
        for container in spec["containers"] + spec.get("initContainers", []):
            yield f"{name}/{container['name']}", container


def roles(plan: Plan) -> Iterator[tuple[Planned, str]]:
    """Every role that the plan gives, with the resource that gives it."""
    for resource in plan.resources:
        if resource.type.startswith("gcp:") and "role" in resource.inputs:
            yield resource, resource.inputs["role"]


def awaited(plan: Plan, resource: Planned) -> list[Planned]:
    """All resources, components aside, that `resource` waits for, directly or through others."""
    by_urn = {each.urn: each for each in plan.resources}
    found: dict[str, None] = {}
    waiting = [*resource.dependencies]
    while waiting:
        urn = waiting.pop()
        if urn not in found:
            found[urn] = None
            waiting += by_urn[urn].dependencies
    return [by_urn[urn] for urn in found if ":components:" not in by_urn[urn].type]


def values(tree: Any, key: str) -> Iterator[Any]:
    """Everything that stands under a key, at any depth."""
    below = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    if isinstance(tree, dict) and key in tree:
        yield tree[key]
    for each in below:
        yield from values(each, key)


def text(plan: Plan) -> str:
    """Everything that a plan says, to search in."""
    return json.dumps([resource.inputs for resource in plan.resources])


def _pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for below in value.values():
            yield from _pod_specs(below)
    elif isinstance(value, list):
        for below in value:
            yield from _pod_specs(below)
