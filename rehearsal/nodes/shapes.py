"""Simulated nodes, as GKE creates them for a node pool or, on Autopilot, for a pod.

They have no kubelet, containers or accelerators: kwok reports that they are ready and that their pods run.
Their capacity is the machine type's. GKE's published formula gives the part of it that pods can use. The
daemons that GKE runs on every node are missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Any, Final

from cloud.machines import (
    DEFAULT,
    GPU_LABEL,
    GPU_RESOURCE,
    MACHINES,
    TPU_LABEL,
    TPU_RESOURCE,
    Machine,
    allocatable_disk_gib,
)
from cloud.nodes import node_labels, node_limits
from cloud.quantity import quantity
from cloud.rules import ZONE
from cloud.slices import Slice

# GKE's default boot disk, in GB.
_DEFAULT_DISK: Final = 100
# Autopilot's general-purpose nodes. This machine is large enough for any pod of that compute class.
_GENERAL_PURPOSE: Final = MACHINES["e2-standard-32"]
_PODS: Final = 110
_ZONES_OF_A_REGION: Final = "abc"

# Virtual CPUs of a core.
_THREADS: Final = 2
# GKE's taint of the nodes that come by requests (pkg/provisioningrequests/pods/pods.go of its autoscaler).
_QUEUED_TAINT: Final = {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"}
POOL_LABEL: Final = "cloud.google.com/gke-nodepool"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of the nodes in a pool.

    Args:
        pool: Name of the node pool.
        machine: Machine type.
        zones: Zones of the nodes, in turn.
        least: Smallest number of nodes.
        most: Largest number of nodes.
        disk: Boot disk in GB.
        labels: Labels besides those that GKE sets.
        taints: Taints.
        queued: Whether nodes come only by a request for all nodes of a job.
        cards: Number of network cards that pods can claim.
    """

    pool: str
    machine: Machine
    zones: tuple[str, ...]
    least: int
    most: int
    disk: int
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    queued: bool = False
    cards: int = 0

    def node(self, index: int) -> dict[str, Any]:
        """The node with an index."""
        machine, name = self.machine, f"gke-{self.pool}-{index}"
        zone = self.zones[index % len(self.zones)]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    **self.labels,
                    **machine.node_labels,
                    POOL_LABEL: self.pool,
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/instance-type": machine.name,
                    "topology.kubernetes.io/region": zone.rpartition("-")[0],
                    "topology.kubernetes.io/zone": zone,
                },
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {
                "capacity": _resources(
                    machine, str(machine.cpus), f"{machine.memory_gib}Gi", self.disk * 1e9 / 2**30
                ),
                "allocatable": _resources(
                    machine,
                    f"{floor(1000 * machine.allocatable_cpus)}m",
                    f"{floor(1024 * machine.allocatable_gib)}Mi",
                    allocatable_disk_gib(self.disk),
                ),
            },
        }

    def suits(self, pod: Mapping[str, Any]) -> bool:
        """Whether an empty node could run the pod, by selector and size."""
        node = self.node(0)
        labels, room = node["metadata"]["labels"], node["status"]["allocatable"]
        selector = pod["spec"].get("nodeSelector") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
        return all(amount <= (quantity(room.get(name)) or 0.0) for name, amount in requests_of(pod).items())


def shape_of_pool(inputs: Mapping[str, Any], name: str, location: str) -> Shape:
    """The shape of the nodes of a `NodePool`.

    Args:
        inputs: Its inputs.
        name: Its name.
        location: Location of its cluster: a region or a zone.
    """
    config = inputs.get("nodeConfig") or {}
    machine = MACHINES[str(config.get("machineType") or DEFAULT)]
    zones = tuple(inputs.get("nodeLocations") or zones_of(location))
    least, most = _counts(inputs, len(zones))
    labels = {str(key): str(value) for key, value in (config.get("labels") or {}).items()}
    topology = (inputs.get("placementPolicy") or {}).get("tpuTopology")
    if topology:
        # A slice has all of its nodes, or none.
        least = most = Slice(topology=topology, machine=machine).hosts
    labels |= node_labels(inputs)
    if (config.get("advancedMachineFeatures") or {}).get("threadsPerCore") == 1:
        machine = replace(machine, cpus=machine.cpus // _THREADS)
    if config.get("spot"):
        labels["cloud.google.com/gke-spot"] = "true"
    if config.get("flexStart"):
        labels["cloud.google.com/gke-flex-start"] = "true"
    queued = bool((inputs.get("queuedProvisioning") or {}).get("enabled"))
    return Shape(
        pool=name,
        machine=machine,
        zones=zones,
        least=least,
        most=most,
        disk=int(config.get("diskSizeGb") or _DEFAULT_DISK),
        labels=labels,
        taints=(
            *taints_of(machine, config.get("taints") or ()),
            *([_QUEUED_TAINT] if queued else ()),
        ),
        queued=queued,
    )


def shape_for_pod(pod: Mapping[str, Any], location: str) -> Shape | None:
    """The shape of the node that Autopilot would create for a pod. None if no known machine could run it.

    Autopilot chooses the machine by the accelerator in the pod's node selector. The node then has the other
    labels of the selector too, such as spot, reservation or driver version.
    """
    selector = {str(key): str(value) for key, value in (pod["spec"].get("nodeSelector") or {}).items()}
    accelerator = selector.get(GPU_LABEL) or selector.get(TPU_LABEL) or ""
    if accelerator:
        machines = [machine for machine in MACHINES.values() if machine.accelerator == accelerator]
    else:
        machines = [_GENERAL_PURPOSE]
    for machine in sorted(machines, key=lambda machine: machine.count):
        shape = Shape(
            pool=f"autopilot-{machine.name}",
            machine=machine,
            zones=tuple(zones_of(location)),
            least=0,
            most=0,
            disk=disk_for(pod),
            labels=selector,
            taints=tuple(taints_of(machine, ())),
        )
        if shape.suits(pod):
            return shape
    return None


def requests_of(pod: Mapping[str, Any]) -> dict[str, float]:
    """The sums of the requests of a pod's containers, by resource."""
    total: dict[str, float] = {}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] = total.get(name, 0.0) + (quantity(amount) or 0.0)
    return total


def needs_accelerators(pod: Mapping[str, Any]) -> bool:
    """Whether a pod asks for GPUs or TPU chips."""
    return bool({GPU_RESOURCE, TPU_RESOURCE} & requests_of(pod).keys())


def zones_of(location: str) -> list[str]:
    """A zone itself, or three zones of a region."""
    if ZONE.fullmatch(location):
        return [location]
    return [f"{location}-{letter}" for letter in _ZONES_OF_A_REGION]


def _counts(inputs: Mapping[str, Any], zones: int) -> tuple[int, int]:
    """The smallest and the largest number of nodes in all zones together."""
    fixed = int(inputs.get("nodeCount") or inputs.get("initialNodeCount") or 0) * zones
    if not inputs.get("autoscaling"):
        return fixed, fixed
    least, most = node_limits(inputs)
    return min(max(least, fixed), most), most


def taints_of(machine: Machine, stated: Any) -> Iterator[Mapping[str, str]]:
    """The stated taints, and GKE's own taint of nodes with accelerators."""
    keys = [taint["key"] for taint in stated]
    for taint in stated:
        effect = taint["effect"].title().replace("_", "")  # NO_SCHEDULE is NoSchedule
        yield {"key": taint["key"], "value": taint.get("value") or "", "effect": effect}
    if machine.accelerator and machine.resource not in keys:
        yield {"key": machine.resource, "value": "present", "effect": "NoSchedule"}


def _resources(machine: Machine, cpu: str, memory: str, disk_gib: float) -> dict[str, str]:
    return {
        "cpu": cpu,
        "memory": memory,
        "ephemeral-storage": f"{floor(disk_gib)}Gi",
        "pods": str(_PODS),
        **({machine.resource: str(machine.count)} if machine.accelerator else {}),
    }


def disk_for(pod: Mapping[str, Any]) -> int:
    """The boot disk in GB for a pod's requests. Autopilot chooses the size itself."""
    asked = requests_of(pod).get("ephemeral-storage", 0.0) / 1e9
    return max(_DEFAULT_DISK, floor(2.5 * asked))
