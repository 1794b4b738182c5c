"""Plans of the stacks, shared by all tests, and questions that tests ask about a plan."""

import gc
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

import stacks
from cloud.services.kubernetes import prepares
from cloud.services.storage import BUCKET
from engine import plan as engine_plan
from engine.configuration import configuration
from engine.plan import Plan, Planned
from engine.project import known_stacks
from operations.previews.stack_inputs import stack_file
from rehearsal.session import Rehearsal
from stacks.settings.model import keys_of
from tests.once import kept_open, once

# With the setting `imageUri` a stack builds no image. tests/stacks/test_run_images.py tests image builds.
IMAGE: Final = f"us-docker.pkg.dev/rehearsal-project/images/finetune@sha256:{'a' * 64}"
# Nothing is built, and a bucket may be replaced: the engine refuses to replace one that is protected.
STANDING_SETTINGS: Final = {"imageUri": IMAGE, "forceDestroy": "true"}


# Stacks with the name of their scenario. Every other stack runs one of these scenarios with other settings.
STACKS: Final = [stack for stack in known_stacks() if stack_file(stack)["scenario"] == stack]
# Types of resources that run something once. An update in place runs nothing.
_ONCE: Final = (":ray.io/v1:RayJob", ":batch/v1:Job", "cloudrun:Execution")
# Types of resources that train.
_TRAININGS: Final = (":ray.io/v1:RayJob", ":batch/v1:Job", "cloudrunv2/job:Job")
_standing_plans: Final[dict[Rehearsal, Plan]] = {}


def mostly_slow(stacks: Iterable[str], *, quick: Collection[str]) -> list[Any]:
    """Stacks to parametrize a test with. Those that are not in `quick` run only with `--slow`."""
    return [pytest.param(stack, marks=[] if stack in quick else [pytest.mark.slow]) for stack in stacks]


@cache
def keys_of_stack(stack: str) -> frozenset[str]:
    """The keys that the stack file of a scenario may have, such as `capacity.type`."""
    return frozenset(keys_of(stacks.scenario_modules()[stack].Settings))


def region_of(stack: str) -> str:
    """The region in a stack's file."""
    return configuration(stack, {}).plain["gcp:region"]


def stacks_with(*keys: str) -> list[str]:
    """The stacks whose scenario has all of these settings."""
    return [stack for stack in STACKS if keys_of_stack(stack).issuperset(keys)]


def one_with(*keys: str) -> str:
    """A stack whose scenario has all of these settings. Which of them does not matter to the test."""
    return stacks_with(*keys)[0]


def keys(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by their keys: `capacity_type` becomes `capacity.type`."""
    return {key.replace("_", "."): value for key, value in settings.items()}


def known_settings(stack: str, **settings: str) -> dict[str, str]:
    """The settings that the stack's scenario has, by their keys."""
    return {key: value for key, value in keys(settings).items() if key in keys_of_stack(stack)}


def standing_plan(rehearsal: Rehearsal) -> Plan:
    """The resources in the state of a rehearsal, as a plan in which everything is known."""
    if rehearsal in _standing_plans:
        return _standing_plans[rehearsal]
    resources = rehearsal.state()["deployment"].get("resources") or ()
    steps = [{"urn": resource["urn"], "op": "same", "newState": resource} for resource in resources]
    return engine_plan.read(json.dumps({"steps": steps}))


def outputs(rehearsal: Rehearsal) -> dict[str, str]:
    """The outputs of a stack that is up."""
    resources = rehearsal.state()["deployment"]["resources"]
    (stack,) = [resource for resource in resources if resource["type"] == "pulumi:pulumi:Stack"]
    return stack["outputs"]


def replaced_types(plan: Plan) -> set[str]:
    """Types of the resources that a plan replaces or deletes, without the bucket of a build's sources."""
    lost = (resource for resource in plan.resources if resource.op in ("replace", "delete"))
    return {
        resource.type
        for resource in lost
        if not (resource.type == BUCKET.type and resource.name.endswith("-source"))
    }


def training(plan: Plan) -> Planned:
    """The only resource of a plan that trains."""
    (resource,) = trainings(plan, _TRAININGS)
    return resource


def trainings(plan: Plan, endings: tuple[str, ...]) -> list[Planned]:
    """The resources of these types, but not the Jobs that only prepare a training or a server."""
    of_these = [resource for resource in plan.resources if resource.type.endswith(endings)]
    return [resource for resource in of_these if not prepares(resource.inputs)]


def run_once(plan: Plan) -> Planned:
    """The only resource of a plan that runs the training once: a Job, or the execution of a Cloud Run job."""
    (resource,) = trainings(plan, _ONCE)
    return resource


def runs(plan: Plan) -> set[str]:
    """Names of the runs in the commands of a plan's trainings."""
    commands = [resource.inputs for resource in trainings(plan, _TRAININGS)]
    return set(re.findall(r'--run(?:[= ]|", ")([\w.-]+)', json.dumps(commands)))


@cache
def shipped(stack: str, **settings: str) -> Plan:
    """The first plan of a stack with settings over those of its file. Tests share it: do not change it."""
    return once(("plan", stack, settings), lambda: previewed(stack, keys(settings)))


def previewed(stack: str, overrides: Mapping[str, str]) -> Plan:
    """A first plan of a stack, from a rehearsal that stays open: starting one takes as long as planning."""
    rehearsal = _empty(stack)
    rehearsal.configure(overrides)
    return rehearsal.preview()


def open_to_the_end(rehearsal: Rehearsal) -> Rehearsal:
    """Start a rehearsal that is open until the process of the tests ends."""
    kept_open.enter_context(rehearsal)
    # A rehearsal that closes collects garbage, in half a second for the objects of all tests. Not at the end.
    kept_open.callback(gc.freeze)
    return rehearsal


@cache
def _empty(stack: str) -> Rehearsal:
    return open_to_the_end(Rehearsal(stack))


@cache
def standing(stack: str) -> Rehearsal:
    """A stack that is up, with `STANDING_SETTINGS`. Tests share it: do not change it."""
    rehearsal = open_to_the_end(Rehearsal(stack, known_settings(stack, **STANDING_SETTINGS)))
    rehearsal.up()
    _standing_plans[rehearsal] = standing_plan(rehearsal)
    return rehearsal


@cache
def planned_next(stack: str, **settings: str) -> Plan:
    """The plan of the next `up` of the stack that is up, with or without other settings."""
    rehearsal = standing(stack)
    rehearsal.configure({**known_settings(stack, **STANDING_SETTINGS), **keys(settings)})
    return rehearsal.preview()


def of_type(plan: Plan, ending: str) -> list[Planned]:
    """Resources whose type ends in `ending`, such as `:RayJob`."""
    return [resource for resource in plan.resources if resource.type.endswith(ending)]


def only(plan: Plan, ending: str) -> Planned:
    """The only resource of a type."""
    (resource,) = of_type(plan, ending)
    return resource


def named(plan: Plan, name: str) -> Planned:
    """The only resource of this logical name that is not a component."""
    (resource,) = [resource for resource in resources_of(plan) if resource.name == name]
    return resource


def resources_of(plan: Plan) -> list[Planned]:
    """The resources of a plan that are not components."""
    return [resource for resource in plan.resources if ":components:" not in resource.type]


def changes(plan: Plan) -> dict[str, str]:
    """The operation on every resource that would change, by the resource's name."""
    return {resource.name: resource.op for resource in plan.resources if resource.op != "same"}


def pods(plan: Plan) -> Iterator[tuple[Planned, dict[str, Any]]]:
    """Every pod spec of a plan, after the resource that creates the pods."""
    for resource in plan.resources:
        if resource.type.startswith("kubernetes:"):
            for spec in _pod_specs(resource.inputs):
                yield resource, spec


def pod_specs(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod spec of a plan, after the name of the resource that it is in."""
    for resource, spec in pods(plan):
        yield resource.name, spec


def containers(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every container of a plan, also init containers, after its name `resource/container`."""
    for name, spec in pod_specs(plan):
        for container in spec["containers"] + spec.get("initContainers", []):
            yield f"{name}/{container['name']}", container


def roles(plan: Plan) -> Iterator[tuple[Planned, str]]:
    """Every role that the plan grants, after the resource that grants it."""
    for resource in plan.resources:
        if resource.type.startswith("gcp:") and "role" in resource.inputs:
            yield resource, resource.inputs["role"]


def clusters(plan: Plan) -> list[Planned]:
    """The clusters of GKE."""
    return of_type(plan, "container/cluster:Cluster")


def runs_on_cloud_run(plan: Plan) -> bool:
    """Whether the training is a job of Cloud Run."""
    return bool(of_type(plan, "cloudrunv2/job:Job"))


def node_pools(plan: Plan) -> list[Planned]:
    """The node pools of Standard clusters."""
    return of_type(plan, "container/nodePool:NodePool")


def is_accelerated(pool: Planned) -> bool:
    """Whether the nodes of a pool have GPUs or TPUs."""
    node = pool.inputs["nodeConfig"]
    return bool(node.get("guestAccelerators")) or node["machineType"].startswith("ct")


def service_accounts(resources: Iterable[Planned]) -> set[str]:
    """The service accounts that the inputs of resources name."""
    return {account for resource in resources for account in values(resource.inputs, "serviceAccount")}


def awaited(plan: Plan, resource: Planned) -> list[Planned]:
    """All resources except components that `resource` waits for, directly or through others."""
    by_urn = {planned.urn: planned for planned in plan.resources}
    urns: dict[str, None] = {}
    waiting = [*resource.dependencies]
    while waiting:
        urn = waiting.pop()
        if urn not in urns:
            urns[urn] = None
            waiting += by_urn[urn].dependencies
    return [by_urn[urn] for urn in urns if ":components:" not in by_urn[urn].type]


def values(tree: Any, key: str) -> Iterator[Any]:
    """All values of a key, at any depth."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree[key]
        tree = list(tree.values())
    if isinstance(tree, list):
        for below in tree:
            yield from values(below, key)


def text(plan: Plan) -> str:
    """The inputs of all resources as one text, to search in."""
    return json.dumps([resource.inputs for resource in plan.resources])


def _pod_specs(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if isinstance(tree.get("containers"), list):
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for below in tree:
            yield from _pod_specs(below)


def rights_that_stay(rehearsal: Rehearsal) -> set[str]:
    """Ids of rights that a stack which is up leaves when it is destroyed, because others may need them."""
    resources = rehearsal.state()["deployment"]["resources"]
    staying = [resource for resource in resources if resource.get("retainOnDelete")]
    assert all(resource["type"].endswith("IamMember") for resource in staying)
    return {resource["id"] for resource in staying}
