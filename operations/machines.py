"""The machines that a plan asks for, whichever way it asks."""

from collections.abc import Mapping
from dataclasses import dataclass

from cloud.container import CLUSTER, NODE_POOL
from cloud.inputs import texts
from cloud.machines import GPU_LABEL, MACHINES, TPU_LABEL, Machine
from components.capacity import CapacityType, Reservation
from engine.plan import Planned
from operations.plan import StackPlan
from operations.workloads import Pods, pods_of


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Machines of one kind that a resource asks for.

    Args:
        type: What they are; None where Autopilot has none that is large enough.
        kept: How many are there whether they are used or not.
        most: How many there are at most.
        zones: Where, empty for any zone of the region.
        disk_gb: Boot disk of each; 0 when Google chooses it.
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


def machines_of(plan: StackPlan) -> list[Machines]:
    """Every machine that the plan's node pools have, or that Autopilot will make for its pods."""
    found = [_of_pool(pool) for pool in plan.of_type(NODE_POOL.type)]
    if any(cluster.inputs.get("enableAutopilot") for cluster in plan.of_type(CLUSTER.type)):
        found += [made for pods in pods_of(plan) if (made := _for_pods(pods))]
    return found


def _of_pool(pool: Planned) -> Machines:
    node, scaling = pool.inputs["nodeConfig"], pool.inputs.get("autoscaling") or {}
    zones = tuple(texts(pool.inputs, "nodeLocations[]"))
    fixed = int(pool.inputs.get("nodeCount") or 0) * max(1, len(zones))
    named = next(texts(node, "reservationAffinity.values[]"), None)
    return Machines(
        resource=pool.name,
        type=MACHINES[node["machineType"]],
        type_name=node["machineType"],
        kept=int(scaling.get("totalMinNodeCount") or 0) if scaling else fixed,
        most=int(scaling.get("totalMaxNodeCount") or 0) if scaling else fixed,
        zones=zones,
        capacity=_capacity(spot=bool(node.get("spot")), flex=bool(node.get("flexStart")), reserved=named),
        reservation=Reservation.parse(named) if named else None,
        disk_gb=int(node.get("diskSizeGb") or 0),
    )


def _for_pods(pods: Pods) -> Machines | None:
    """What Autopilot makes for pods with accelerators; pods without share Google's general nodes."""
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
    )


def _capacity(*, spot: bool, flex: bool, reserved: str | None) -> CapacityType:
    if reserved:
        return CapacityType.RESERVATION
    if flex:
        return CapacityType.FLEX_START
    return CapacityType.SPOT if spot else CapacityType.ON_DEMAND
