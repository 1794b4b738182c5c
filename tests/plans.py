"""What tests ask of a plan."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from engine.plan import Plan, Planned
from rehearsal import Rehearsal

# With the setting `imageUri` a stack builds no image; tests/stacks/test_training_image.py has those that do.
IMAGE: Final = f"us-docker.pkg.dev/rehearsal-project/images/finetune@sha256:{'a' * 64}"


@cache
def shipped(stack: str) -> Plan:
    """The first plan of a stack with its stack file as it is; not to be changed, as tests share it."""
    with Rehearsal(stack) as rehearsal:
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


def pod_specs(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod spec of a plan with the name of the resource that it is in."""
    for resource in plan.resources:
        if resource.type.startswith("kubernetes:"):
            for spec in _pod_specs(resource.inputs):
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


def ancestors(plan: Plan, resource: Planned) -> set[str]:
    """Logical names of all resources, components aside, that `resource` waits for."""
    by_urn = {each.urn: each for each in plan.resources}
    found: set[str] = set()
    waiting = [resource]
    while waiting:
        for urn in waiting.pop().dependencies:
            needed = by_urn[urn]
            if needed.urn not in found:
                found.add(needed.urn)
                waiting.append(needed)
    return {by_urn[urn].name for urn in found if ":components:" not in by_urn[urn].type}


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
