"""Simulated nodes: what GKE would make of a node pool, or on Autopilot of a pod.

No kubelet, container or accelerator is behind them: kwok reports them ready and their pods running. Their
capacity is that of the machine type, and what pods get of it follows GKE's published formula. The daemons
that GKE runs on every node are missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Any, Final

from cloud.machines import DEFAULT, GPU_LABEL, MACHINES, TPU_LABEL, Machine, Slice, allocatable_disk_gib
from cloud.nodes import node_labels, node_limits
from cloud.quantity import quantity

# GKE's default boot disk, in GB.
_DEFAULT_DISK: Final = 100
# Autopilot's general-purpose nodes: large enough for any pod that the compute class takes.
_GENERAL_PURPOSE: Final = MACHINES["e2-standard-32"]
_PODS: Final = 110
_ZONES_OF_A_REGION: Final = "abc"

# Virtual CPUs of a core.
_THREADS: Final = 2
POOL_LABEL: Final = "cloud.google.com/gke-nodepool"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Nodes of one kind.

    Args:
        pool: Name of the node pool.
        machine: Their machine type.
        zones: Zones that they are spread over.
        least: How many are kept.
        most: How many there may be.
        disk: Boot disk in GB.
        labels: Labels beside those that GKE sets.
        taints: Taints.
    """

    pool: str
    machine: Machine
    zones: tuple[str, ...]
    least: int
    most: int
    disk: int
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]

    def node(self, index: int) -> dict[str, Any]:
        """The node of that index."""
        of, name = self.machine, f"gke-{self.pool}-{index}"
        zone = self.zones[index % len(self.zones)]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    **self.labels,
                    **of.node_labels,
                    POOL_LABEL: self.pool,
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/instance-type": of.name,
                    "topology.kubernetes.io/region": zone.rpartition("-")[0],
                    "topology.kubernetes.io/zone": zone,
                },
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {
                "capacity": _resources(of, str(of.cpus), f"{of.memory_gib}Gi", self.disk * 1e9 / 2**30),
                "allocatable": _resources(
                    of,
                    f"{floor(1000 * of.allocatable_cpus)}m",
                    f"{floor(1024 * of.allocatable_gib)}Mi",
                    allocatable_disk_gib(self.disk),
                ),
            },
        }

    def suits(self, pod: Mapping[str, Any]) -> bool:
        """Whether one of its nodes, empty, could run the pod, as far as selector and size go."""
        node = self.node(0)
        labels, room = node["metadata"]["labels"], node["status"]["allocatable"]
        selector = pod["spec"].get("nodeSelector") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
        return all(amount <= (quantity(room.get(name)) or 0.0) for name, amount in requests_of(pod).items())


def shape_of_pool(inputs: Mapping[str, Any], name: str, location: str) -> Shape:
    """The nodes that a `gcp:container/nodePool:NodePool` describes.

    Args:
        inputs: Its inputs.
        name: Its name.
        location: Location of its cluster: a region or a zone.
    """
    config = inputs.get("nodeConfig") or {}
    chosen = MACHINES[str(config.get("machineType") or DEFAULT)]
    zones = tuple(inputs.get("nodeLocations") or _zones(location))
    least, most = _counts(inputs, len(zones))
    labels = {str(key): str(value) for key, value in (config.get("labels") or {}).items()}
    topology = (inputs.get("placementPolicy") or {}).get("tpuTopology")
    if topology:
        # A slice is whole or not there at all.
        least = most = Slice(topology=topology, machine=chosen).hosts
    labels |= node_labels(inputs)
    if (config.get("advancedMachineFeatures") or {}).get("threadsPerCore") == 1:
        chosen = replace(chosen, cpus=chosen.cpus // _THREADS)
    if config.get("spot"):
        labels["cloud.google.com/gke-spot"] = "true"
    if config.get("flexStart"):
        labels["cloud.google.com/gke-flex-start"] = "true"
    return Shape(
        pool=name,
        machine=chosen,
        zones=zones,
        least=least,
        most=most,
        disk=int(config.get("diskSizeGb") or _DEFAULT_DISK),
        labels=labels,
        taints=tuple(_taints(chosen, config.get("taints") or ())),
    )


def shape_for_pod(pod: Mapping[str, Any], location: str) -> Shape | None:
    """The node that Autopilot would make for a pod; None when no machine of ours could run it.

    Autopilot picks the machine by the accelerator in the pod's node selector; the other labels of the
    selector (spot, reservation, driver version) are properties that such a node then has.
    """
    selector = {str(key): str(value) for key, value in (pod["spec"].get("nodeSelector") or {}).items()}
    accelerator = selector.get(GPU_LABEL) or selector.get(TPU_LABEL) or ""
    if accelerator:
        fitting = [each for each in MACHINES.values() if each.accelerator == accelerator]
    else:
        fitting = [_GENERAL_PURPOSE]
    for each in sorted(fitting, key=lambda found: found.count):
        shape = Shape(
            pool=f"autopilot-{each.name}",
            machine=each,
            zones=tuple(_zones(location)),
            least=0,
            most=0,
            disk=_autopilot_disk(pod),
            labels=selector,
            taints=tuple(_taints(each, ())),
        )
        if shape.suits(pod):
            return shape
    return None


def requests_of(pod: Mapping[str, Any]) -> dict[str, float]:
    """What the containers of a pod ask for together."""
    total: dict[str, float] = {}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] = total.get(name, 0.0) + (quantity(amount) or 0.0)
    return total


def _zones(location: str) -> list[str]:
    """A zone itself, or three zones of a region."""
    if location[-2:-1] == "-":
        return [location]
    return [f"{location}-{letter}" for letter in _ZONES_OF_A_REGION]


def _counts(inputs: Mapping[str, Any], zones: int) -> tuple[int, int]:
    """Nodes in all zones together: how many are kept, how many there may be."""
    fixed = int(inputs.get("nodeCount") or inputs.get("initialNodeCount") or 0) * zones
    if not inputs.get("autoscaling"):
        return fixed, fixed
    least, most = node_limits(inputs)
    return min(max(least, fixed), most), most


def _taints(of: Machine, stated: Any) -> Iterator[Mapping[str, str]]:
    """The stated ones, and GKE's own that keeps other pods off accelerators."""
    keys = [taint["key"] for taint in stated]
    for taint in stated:
        effect = taint["effect"].title().replace("_", "")  # NO_SCHEDULE is NoSchedule
        yield {"key": taint["key"], "value": taint.get("value") or "", "effect": effect}
    if of.accelerator and of.resource not in keys:
        yield {"key": of.resource, "value": "present", "effect": "NoSchedule"}


def _resources(of: Machine, cpu: str, memory: str, disk_gib: float) -> dict[str, str]:
    return {
        "cpu": cpu,
        "memory": memory,
        "ephemeral-storage": f"{floor(disk_gib)}Gi",
        "pods": str(_PODS),
        **({of.resource: str(of.count)} if of.accelerator else {}),
    }


def _autopilot_disk(pod: Mapping[str, Any]) -> int:
    """A boot disk in GB that holds what the pod asks for: Autopilot sizes it itself."""
    asked = requests_of(pod).get("ephemeral-storage", 0.0) / 1e9
    return max(_DEFAULT_DISK, floor(2.5 * asked))
