"""The pods that a plan asks for, whatever makes them, and Cloud Run's instances."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from cloud.quantity import quantity
from engine.plan import Planned
from operations.plan import StackPlan

CLOUD_RUN_JOB: Final = "gcp:cloudrunv2/job:Job"
CLOUD_RUN_SERVICE: Final = "gcp:cloudrunv2/service:Service"
_ACCELERATORS: Final = ("nvidia.com/gpu", "google.com/tpu")
_GIB: Final = 2**30


@dataclass(frozen=True, kw_only=True)
class Pods:
    """Pods of one template, or instances of a Cloud Run job or service.

    Args:
        resource: Logical name of the resource that they belong to.
        role: What they are there, such as `head`; empty where there is one kind.
        spec: The pod spec.
        kept: How many there are whether they are used or not.
        count: How many there are at most.
        lasting: Whether they stay when the training has ended.
    """

    resource: str
    role: str
    spec: Mapping[str, Any]
    kept: int
    count: int
    lasting: bool

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
        return ceil(sum(self._sum(name) for name in _ACCELERATORS))

    def _sum(self, name: str) -> float:
        limits = (container.get("resources", {}).get("limits") or {} for container in self.spec["containers"])
        return sum(quantity(limit.get(name)) or 0.0 for limit in limits)


def pods_of(plan: StackPlan) -> list[Pods]:
    """Every pod of the plan's Kubernetes objects."""
    return [pods for resource in plan.resources for pods in _pods(resource)]


def cloud_run_of(plan: StackPlan) -> list[Pods]:
    """The tasks of the plan's Cloud Run jobs and the instances of its services."""
    return [pods for resource in plan.resources for pods in _instances(resource)]


def _pods(resource: Planned) -> Iterator[Pods]:
    spec = resource.inputs.get("spec")
    if not resource.type.startswith("kubernetes:") or not isinstance(spec, Mapping):
        return
    kind = resource.inputs.get("kind")
    if kind == "RayJob":
        cluster = spec.get("rayClusterSpec")
        lasting = not spec.get("shutdownAfterJobFinishes")
        yield from _ray_cluster(resource.name, cluster, lasting) if cluster else ()
        yield _some(resource.name, "submitter", spec["submitterPodTemplate"], 1, lasting=False)
    elif kind == "RayCluster":
        yield from _ray_cluster(resource.name, spec, lasting=True)
    elif kind == "Job":
        yield _some(resource.name, "", spec["template"], int(spec.get("parallelism", 1)), lasting=False)
    elif kind in ("Deployment", "StatefulSet"):
        yield _some(resource.name, "", spec["template"], int(spec.get("replicas", 1)), lasting=True)


def _ray_cluster(name: str, spec: Mapping[str, Any], lasting: bool) -> Iterator[Pods]:
    yield _some(name, "head", spec["headGroupSpec"]["template"], 1, lasting=lasting)
    for group in spec.get("workerGroupSpecs", ()):
        count = int(group["replicas"]) * int(group.get("numOfHosts", 1))
        yield _some(name, group["groupName"], group["template"], count, lasting=lasting)


def _some(name: str, role: str, template: Mapping[str, Any], count: int, *, lasting: bool) -> Pods:
    kept = count if lasting else 0
    return Pods(resource=name, role=role, spec=template["spec"], kept=kept, count=count, lasting=lasting)


def _instances(resource: Planned) -> Iterator[Pods]:
    template = resource.inputs.get("template")
    if resource.type == CLOUD_RUN_JOB and template:
        tasks = int(template.get("parallelism") or template.get("taskCount") or 1)
        yield Pods(
            resource=resource.name, role="", spec=template["template"], kept=0, count=tasks, lasting=False
        )
    elif resource.type == CLOUD_RUN_SERVICE and template:
        scaling = template.get("scaling") or {}
        yield Pods(
            resource=resource.name,
            role="",
            spec=template,
            kept=int(scaling.get("minInstanceCount") or 0),
            count=int(scaling.get("maxInstanceCount") or 1),
            lasting=True,
        )
