"""The pods, Cloud Run instances and machines that a plan asks for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from cloud.inputs import at, texts
from cloud.machines import DEFAULT, GPU_LABEL, GPU_RESOURCE, MACHINES, TPU_LABEL, TPU_RESOURCE, Machine
from cloud.nodes import node_limits
from cloud.quantity import quantity
from cloud.services import cloudrun
from cloud.services.container import CLUSTER, NODE_POOL
from components.capacity.compute_class import CLASS_LABEL
from components.cluster.capacity import CapacityType, Reservation
from engine.plan import Planned
from operations.plan import StackPlan

_GIB: Final = 2**30
# Defaults of a node pool. https://docs.cloud.google.com/kubernetes-engine/docs/concepts/types-of-clusters
_REGION_ZONES: Final = 3
_DEFAULT_DISK_GB: Final = 100


@dataclass(frozen=True, kw_only=True)
class Pods:
    """Pods of one template, or instances of a Cloud Run job or service.

    Args:
        kept: The number that exists even if nobody uses them.
        most: The largest number at the same time.
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
        """GiB of ephemeral storage of one pod."""
        return self._sum("ephemeral-storage") / _GIB

    @property
    def accelerators(self) -> int:
        """GPUs or TPU chips of one pod."""
        return ceil(self._sum(GPU_RESOURCE) + self._sum(TPU_RESOURCE))

    def _sum(self, name: str) -> float:
        limits = at(self.spec, "containers[].resources.limits")
        return sum(quantity(limit.get(name)) or 0.0 for limit in limits)


def pods_of(plan: StackPlan) -> list[Pods]:
    """The pods of the plan's Kubernetes objects."""
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
    """The containers of the plan."""
    every = (*pods_of(plan), *cloud_run_of(plan))
    return [container for pods in every for container in pods.spec["containers"]]


def _templates(resource: Planned) -> Iterator[tuple[Mapping[str, Any], int, bool]]:
    """Templates of pods, each with its number of pods, and whether they stay when the training has ended."""
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
    if resource.type == cloudrun.JOB.type and template:
        spec, kept = template["template"], 0
        most = int(template.get("parallelism") or template.get("taskCount") or 1)
    elif resource.type == cloudrun.SERVICE.type and template:
        spec, scaling = template, template.get("scaling") or {}
        kept, most = int(scaling.get("minInstanceCount") or 0), int(scaling.get("maxInstanceCount") or 1)
    else:
        return
    yield Pods(resource=resource.name, type=resource.type, spec=spec, kept=kept, most=most)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Machines of one type that a resource asks for.

    Args:
        type: The machine type, None if Autopilot has none that is large enough.
        kept: The number that exists even if nobody uses them.
        most: The largest number at the same time.
        zones: Their zones, empty for any zone of the region.
        disk_gb: GB of a machine's boot disk, 0 if Google chooses it.
        order: 0 if they come first, 1 if GKE tries them when it has none of those, and so on.
        autopilot: Whether Autopilot creates them.
    """

    resource: str
    type: Machine | None
    type_name: str
    kept: int
    most: int
    zones: tuple[str, ...]
    capacity: CapacityType
    reservation: Reservation | None
    disk_gb: int
    order: int = 0
    autopilot: bool = False


def machines_of(plan: StackPlan) -> list[Machines]:
    """The machines of the plan's node pools, and those that Autopilot creates for its pods.

    Every capacity of a list is there, though the pods run on one of them.
    """
    machines = [_of_pool(pool) for pool in plan.of_type(NODE_POOL.type)]
    if any(cluster.inputs.get("enableAutopilot") for cluster in plan.of_type(CLUSTER.type)):
        for pods in pods_of(plan):
            machines += _of_classes(plan, pods) or filter(None, [_for_pods(pods)])
    return machines


def first_pools_of(plan: StackPlan) -> list[Machines]:
    """The first node pools that GKE creates with Standard clusters, and removes before the plan's own pools
    come. Such a pool has one machine in every zone of its cluster, with GKE's default type and disk.
    """
    return [
        Machines(
            resource=cluster.name,
            type=MACHINES[DEFAULT],
            type_name=DEFAULT,
            kept=0,
            most=int(cluster.inputs.get("initialNodeCount") or 1) * _zones_of(cluster),
            zones=(),
            capacity=CapacityType.ON_DEMAND,
            reservation=None,
            disk_gb=_DEFAULT_DISK_GB,
        )
        for cluster in plan.of_type(CLUSTER.type)
        if not cluster.inputs.get("enableAutopilot") and cluster.inputs.get("removeDefaultNodePool")
    ]


def _zones_of(cluster: Planned) -> int:
    """The zones of a cluster's nodes: three of a region, unless the cluster names its zones."""
    named = len([*texts(cluster.inputs, "nodeLocations[]")])
    in_zone = str(cluster.inputs["location"]).count("-") > 1
    return named + 1 if in_zone else named or _REGION_ZONES


def _of_pool(pool: Planned) -> Machines:
    node = pool.inputs["nodeConfig"]
    zones = tuple(texts(pool.inputs, "nodeLocations[]"))
    kept, most = node_limits(pool.inputs)
    named = next(texts(node, "reservationAffinity.values[]"), None)
    return Machines(
        resource=pool.name,
        type=MACHINES[node["machineType"]],
        type_name=node["machineType"],
        kept=kept,
        most=most,
        zones=zones,
        capacity=_capacity(spot=bool(node.get("spot")), flex=bool(node.get("flexStart")), reserved=named),
        reservation=Reservation.parse(named) if named else None,
        disk_gb=int(node.get("diskSizeGb") or 0),
    )


def _of_classes(plan: StackPlan, pods: Pods) -> list[Machines]:
    """The machines of the classes that pods with accelerators choose, or their queue for them."""
    trees = _objects(plan, "ComputeClass")
    classes = {tree["metadata"]["name"]: tree["spec"]["priorities"] for tree in trees}
    if not classes or not pods.accelerators or not pods.most:
        return []
    chosen = (pods.spec.get("nodeSelector") or {}).get(CLASS_LABEL)
    flavors = at({"queues": _objects(plan, "ClusterQueue")}, "queues[].spec.resourceGroups[].flavors[].name")
    names = [chosen] if chosen else [str(flavor) for flavor in flavors]
    rules = [rule for name in names for rule in classes[name]]
    return [_of_rule(pods, rule, order) for order, rule in enumerate(rules)]


def _objects(plan: StackPlan, kind: str) -> list[Mapping[str, Any]]:
    """The plan's Kubernetes objects of a kind."""
    return [resource.inputs for resource in plan.resources if resource.inputs.get("kind") == kind]


def _of_rule(pods: Pods, rule: Mapping[str, Any], order: int) -> Machines:
    named = next(iter(at(rule, "reservations.specific[]")), None)
    return Machines(
        resource=pods.resource,
        type=MACHINES[rule["machineType"]],
        type_name=rule["machineType"],
        kept=pods.kept,
        most=pods.most,
        zones=tuple(texts(rule, "location.zones[]")),
        capacity=_capacity(
            spot=bool(rule.get("spot")),
            flex=any(at(rule, "flexStart.enabled")),
            reserved=named and named["name"],
        ),
        reservation=_named_in_rule(named) if named else None,
        disk_gb=0,
        order=order,
        autopilot=True,
    )


def _named_in_rule(named: Mapping[str, Any]) -> Reservation:
    return Reservation(name=named["name"], project=named.get("project"))


def _for_pods(pods: Pods) -> Machines | None:
    """The machines that Autopilot creates for pods with accelerators.

    Other pods share Google's general nodes.
    """
    selector: Mapping[str, str] = pods.spec.get("nodeSelector") or {}
    accelerator = selector.get(GPU_LABEL) or selector.get(TPU_LABEL)
    if not accelerator or not pods.most:
        return None
    fitting = [
        machine
        for machine in MACHINES.values()
        if machine.accelerator == accelerator
        and machine.count >= pods.accelerators
        and machine.cpus > pods.cpus
        and machine.memory_gib > pods.memory_gib
    ]
    smallest = min(fitting, key=lambda machine: (machine.count, machine.cpus), default=None)
    named = selector.get("cloud.google.com/reservation-name")
    owner = selector.get("cloud.google.com/reservation-project")
    return Machines(
        resource=pods.resource,
        type=smallest,
        type_name=smallest.name if smallest else f"for {pods.accelerators} {accelerator}",
        kept=pods.kept,
        most=pods.most,
        zones=(),
        capacity=_capacity(
            spot=selector.get("cloud.google.com/gke-spot") == "true",
            flex=selector.get("cloud.google.com/gke-flex-start") == "true",
            reserved=named,
        ),
        reservation=Reservation(name=named, project=owner) if named else None,
        disk_gb=0,
        autopilot=True,
    )


def _capacity(*, spot: bool, flex: bool, reserved: str | None) -> CapacityType:
    if reserved:
        return CapacityType.RESERVATION
    if flex:
        return CapacityType.FLEX_START
    return CapacityType.SPOT if spot else CapacityType.ON_DEMAND
