"""The pods that a plan asks for, whatever makes them, and Cloud Run's instances."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from cloud import run
from cloud.inputs import at
from cloud.machines import GPU_RESOURCE, TPU_RESOURCE
from cloud.quantity import quantity
from engine.plan import Planned
from operations.plan import StackPlan

_GIB: Final = 2**30


@dataclass(frozen=True, kw_only=True)
class Pods:
    """Pods of one template, or instances of a Cloud Run job or service.

    Args:
        kept: How many there are whether they are used or not.
        most: How many there are at most.
    """

    resource: str
    type: str
    spec: Mapping[str, Any]
    kept: int
    most: int

    @property
    def cpus(self) -> float:
        """CPUs of one."""
        return self._sum("cpu")

    @property
    def memory_gib(self) -> float:
        """Memory of one."""
        return self._sum("memory") / _GIB

    @property
    def storage_gib(self) -> float:
        """Ephemeral storage of one."""
        return self._sum("ephemeral-storage") / _GIB

    @property
    def accelerators(self) -> int:
        """GPUs or TPU chips of one."""
        return ceil(self._sum(GPU_RESOURCE) + self._sum(TPU_RESOURCE))

    def _sum(self, name: str) -> float:
        limits = at(self.spec, "containers[].resources.limits")
        return sum(quantity(limit.get(name)) or 0.0 for limit in limits)


def pods_of(plan: StackPlan) -> list[Pods]:
    """Every pod of the plan's Kubernetes objects."""
    return [
        Pods(
            resource=resource.name,
            type=resource.type,
            spec=template["spec"],
            kept=count if lasting else 0,
            most=count,
        )
        for resource in plan.resources
        for template, count, lasting in _templates(resource)
    ]


def cloud_run_of(plan: StackPlan) -> list[Pods]:
    """The tasks of the plan's Cloud Run jobs and the instances of its services."""
    return [pods for resource in plan.resources for pods in _instances(resource)]


def containers_of(plan: StackPlan) -> list[Mapping[str, Any]]:
    """Every container of the plan."""
    every = (*pods_of(plan), *cloud_run_of(plan))
    return [container for pods in every for container in pods.spec["containers"]]


def _templates(resource: Planned) -> Iterator[tuple[Mapping[str, Any], int, bool]]:
    """Templates of pods, how many there are of each, and whether they stay when the training has ended."""
    spec = resource.inputs.get("spec")
    if not resource.type.startswith("kubernetes:") or not isinstance(spec, Mapping):
        return
    kind = resource.inputs.get("kind")
    if kind == "RayJob":
        if spec.get("rayClusterSpec"):
            yield from _ray_cluster(spec["rayClusterSpec"], not spec.get("shutdownAfterJobFinishes"))
        yield spec["submitterPodTemplate"], 1, False
    elif kind == "RayCluster":
        yield from _ray_cluster(spec, True)
    elif kind == "Job":
        yield spec["template"], int(spec.get("parallelism", 1)), False
    elif kind in ("Deployment", "StatefulSet"):
        yield spec["template"], int(spec.get("replicas", 1)), True


def _ray_cluster(spec: Mapping[str, Any], lasting: bool) -> Iterator[tuple[Mapping[str, Any], int, bool]]:
    yield spec["headGroupSpec"]["template"], 1, lasting
    for group in spec.get("workerGroupSpecs", ()):
        yield group["template"], int(group["replicas"]) * int(group.get("numOfHosts", 1)), lasting


def _instances(resource: Planned) -> Iterator[Pods]:
    template = resource.inputs.get("template")
    if resource.type == run.JOB.type and template:
        spec, kept = template["template"], 0
        most = int(template.get("parallelism") or template.get("taskCount") or 1)
    elif resource.type == run.SERVICE.type and template:
        spec, scaling = template, template.get("scaling") or {}
        kept, most = int(scaling.get("minInstanceCount") or 0), int(scaling.get("maxInstanceCount") or 1)
    else:
        return
    yield Pods(resource=resource.name, type=resource.type, spec=spec, kept=kept, most=most)
