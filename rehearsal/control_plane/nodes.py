"""Simulated nodes: what GKE would make of a node pool, or on Autopilot of a pod.

No kubelet, container or accelerator is behind them: kwok reports them ready and their pods running.
Capacity is the machine type's, what pods may have of it GKE's published formula; the daemons that GKE
runs on every node are not there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import floor, inf, prod
from pathlib import Path
from typing import Any, Final

import yaml

from cloud.quantity import quantity
from rehearsal.fake_cloud import Rejected

_MACHINES: Final = Path(__file__).with_name("machines.yaml")
# The machine of a node pool that names none.
_DEFAULT_MACHINE: Final = "e2-medium"
# GKE's default boot disk, in GB.
_DEFAULT_DISK: Final = 100
# Autopilot's general-purpose nodes: large enough for any pod that the compute class takes.
_GENERAL_PURPOSE: Final = "e2-standard-32"
_PODS: Final = 110
_ZONES_OF_A_REGION: Final = "abc"

_GPU_LABEL: Final = "cloud.google.com/gke-accelerator"
_TPU_LABEL: Final = "cloud.google.com/gke-tpu-accelerator"
_TPU_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
# What the chips of a machine that is a slice of its own are labelled with.
_TOPOLOGY_OF_ONE_HOST: Final = {1: "1x1", 4: "2x2", 8: "2x4"}
# Virtual CPUs of a core.
_THREADS: Final = 2
POOL_LABEL: Final = "cloud.google.com/gke-nodepool"

# Shares of CPUs and of GiB of memory that GKE keeps, by width of the slice.
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
_KEPT_CPUS: Final = ((1, 0.06), (1, 0.01), (2, 0.005), (inf, 0.0025))
_KEPT_GIB: Final = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (inf, 0.02))
_EVICTION_MIB: Final = 100
_EFFECTS: Final = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine type.

    Args:
        name: As Compute Engine calls it.
        cpus: Virtual CPUs.
        memory: GiB.
        accelerator: GKE's name of the accelerator, empty without one.
        count: Accelerators of a machine.
    """

    name: str
    cpus: int
    memory: int
    accelerator: str = ""
    count: int = 0

    @property
    def is_tpu(self) -> bool:
        """Whether the accelerator is a TPU."""
        return self.accelerator.startswith("tpu-")

    @property
    def resource(self) -> str:
        """The resource that pods ask for the accelerator by."""
        return "google.com/tpu" if self.is_tpu else "nvidia.com/gpu"


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
    disk: int = _DEFAULT_DISK
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()

    def node(self, index: int) -> dict[str, Any]:
        """The node of that index."""
        name = f"gke-{self.pool}-{index}"
        zone = self.zones[index % len(self.zones)]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    **self.labels,
                    **_accelerator_labels(self.machine),
                    POOL_LABEL: self.pool,
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/instance-type": self.machine.name,
                    "topology.kubernetes.io/region": zone.rpartition("-")[0],
                    "topology.kubernetes.io/zone": zone,
                },
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": _capacity(self), "allocatable": _allocatable(self)},
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

    Raises:
        Rejected: For a machine type that is not in machines.yaml.
    """
    config = inputs.get("nodeConfig") or {}
    chosen = machine(str(config.get("machineType") or _DEFAULT_MACHINE))
    zones = tuple(inputs.get("nodeLocations") or _zones(location))
    least, most = _counts(inputs, len(zones))
    labels = {str(key): str(value) for key, value in (config.get("labels") or {}).items()}
    topology = (inputs.get("placementPolicy") or {}).get("tpuTopology")
    if topology:
        # A slice is whole or not there at all.
        least = most = max(1, prod(map(int, topology.split("x"))) // (chosen.count or 1))
    if topology or chosen.is_tpu:
        labels[_TPU_TOPOLOGY] = topology or _TOPOLOGY_OF_ONE_HOST[chosen.count]
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
    accelerator = selector.get(_GPU_LABEL) or selector.get(_TPU_LABEL) or ""
    if accelerator:
        fitting = [each for each in _machines().values() if each.accelerator == accelerator]
    else:
        fitting = [machine(_GENERAL_PURPOSE)]
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


def machine(name: str) -> Machine:
    """The machine type of that name.

    Raises:
        Rejected: When it is not in machines.yaml.
    """
    if name not in _machines():
        raise Rejected(f"no simulated node can be made: machine type {name} is not in {_MACHINES.name}")
    return _machines()[name]


def requests_of(pod: Mapping[str, Any]) -> dict[str, float]:
    """What the containers of a pod ask for together."""
    total: dict[str, float] = {}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] = total.get(name, 0.0) + (quantity(amount) or 0.0)
    return total


@cache
def _machines() -> dict[str, Machine]:
    table = yaml.safe_load(_MACHINES.read_text())
    return {name: Machine(name=name, **facts) for name, facts in table.items()}


def _zones(location: str) -> list[str]:
    """A zone itself, or three zones of a region."""
    if location[-2:-1] == "-":
        return [location]
    return [f"{location}-{letter}" for letter in _ZONES_OF_A_REGION]


def _counts(inputs: Mapping[str, Any], zones: int) -> tuple[int, int]:
    """Nodes in all zones together: how many are kept, how many there may be."""
    scaling = inputs.get("autoscaling") or {}
    fixed = inputs.get("nodeCount")
    if fixed is None:
        fixed = inputs.get("initialNodeCount") or 0
    if not scaling:
        return int(fixed) * zones, int(fixed) * zones
    least = int(scaling.get("totalMinNodeCount") or int(scaling.get("minNodeCount") or 0) * zones)
    most = int(scaling.get("totalMaxNodeCount") or int(scaling.get("maxNodeCount") or 0) * zones)
    return min(max(least, int(fixed) * zones), most), most


def _taints(of: Machine, stated: Any) -> Iterator[Mapping[str, str]]:
    """The stated ones, and GKE's own that keeps other pods off accelerators."""
    keys = [taint["key"] for taint in stated]
    for taint in stated:
        effect = _EFFECTS[taint["effect"]]
        yield {"key": taint["key"], "value": taint.get("value") or "", "effect": effect}
    if of.accelerator and of.resource not in keys:
        yield {"key": of.resource, "value": "present", "effect": "NoSchedule"}


def _accelerator_labels(of: Machine) -> dict[str, str]:
    if not of.accelerator:
        return {}
    return {_TPU_LABEL if of.is_tpu else _GPU_LABEL: of.accelerator}


def _capacity(shape: Shape) -> dict[str, str]:
    disk = int(shape.disk * 1e9 / 2**30)
    return {
        "cpu": str(shape.machine.cpus),
        "memory": f"{shape.machine.memory}Gi",
        "ephemeral-storage": f"{disk}Gi",
        "pods": str(_PODS),
        **_accelerators(shape.machine),
    }


def _allocatable(shape: Shape) -> dict[str, str]:
    cpus, memory = shape.machine.cpus, shape.machine.memory
    disk = shape.disk * 1e9 / 2**30
    kept_disk = min(0.5 * disk, 6 + 0.35 * disk, 100) + 0.1 * disk
    return {
        "cpu": f"{floor(1000 * (cpus - _kept(cpus, _KEPT_CPUS)))}m",
        "memory": f"{floor(1024 * (memory - _kept(memory, _KEPT_GIB))) - _EVICTION_MIB}Mi",
        "ephemeral-storage": f"{floor(disk - kept_disk)}Gi",
        "pods": str(_PODS),
        **_accelerators(shape.machine),
    }


def _accelerators(of: Machine) -> dict[str, str]:
    return {of.resource: str(of.count)} if of.accelerator else {}


def _kept(size: float, slices: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for width, share in slices:
        kept += min(size, width) * share
        size -= min(size, width)
    return kept


def _autopilot_disk(pod: Mapping[str, Any]) -> int:
    """A boot disk in GB that holds what the pod asks for: Autopilot sizes it itself."""
    asked = requests_of(pod).get("ephemeral-storage", 0.0) / 1e9
    return max(_DEFAULT_DISK, floor(2.5 * asked))
