"""Rules of node pools with TPU v6e chips, and of pods that ask for chips.

Sources: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus, the webhook of GKE's Ray
operator (ai-on-gke/kuberay-tpu-webhook, README), and where it is named, who reported it. The shapes are kept
apart from what components/ know of them on purpose: what a stack computes from its own table is judged by
this one.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

from cloud.inputs import at, given, is_unknown, texts
from cloud.quantity import quantity
from rehearsal.schema import Problem

ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
RESOURCE: Final = "google.com/tpu"
_V6E: Final = "tpu-v6e-slice"

# Hosts of a slice by machine type and topology. On one host the topology follows from the machine.
_HOSTS: Final[Mapping[str, Mapping[str, int]]] = {
    "ct6e-standard-1t": {"1x1": 1},
    "ct6e-standard-4t": {
        "2x2": 1,
        "2x4": 2,
        "4x4": 4,
        "4x8": 8,
        "8x8": 16,
        "8x16": 32,
        "16x16": 64,
    },
    "ct6e-standard-8t": {"2x4": 1},
}
_OTHER_GENERATIONS: Final = ("ct", "tpu")


def node_pool(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """A pool with chips is a whole slice, and says what machines with chips need said."""
    for machine in texts(inputs, "nodeConfig.machineType"):
        if machine in _HOSTS:
            yield from _machines(inputs, machine)
            for topology in texts(inputs, "placementPolicy.tpuTopology"):
                yield from _slice(inputs, machine, topology)
        elif given(inputs, "placementPolicy.tpuTopology") and not machine.startswith(_OTHER_GENERATIONS):
            yield "placementPolicy.tpuTopology", f"{machine} has no TPU chips"


def _machines(inputs: Mapping[str, Any], machine: str) -> Iterator[Problem]:
    if given(inputs, "nodeConfig.guestAccelerators"):
        yield "nodeConfig.guestAccelerators", f"{machine} has its TPU chips built in, and takes no GPUs"
    if not given(inputs, "nodeConfig.reservationAffinity.consumeReservationType"):
        yield (
            "nodeConfig.reservationAffinity",
            f"must be stated for {machine}: SPECIFIC_RESERVATION, or NO_RESERVATION",
        )
    for disk in texts(inputs, "nodeConfig.diskType"):
        if not disk.startswith("hyperdisk-"):
            # https://github.com/dstackai/dstack/issues/2145
            yield "nodeConfig.diskType", f"{machine} takes no {disk}: give hyperdisk-balanced"


def _slice(inputs: Mapping[str, Any], machine: str, topology: str) -> Iterator[Problem]:
    hosts = _HOSTS[machine].get(topology)
    if hosts is None:
        known = ", ".join(_HOSTS[machine])
        yield "placementPolicy.tpuTopology", f"no {topology} slice is made of {machine}; these are: {known}"
    elif hosts == 1:
        yield "placementPolicy.tpuTopology", f"a slice of one {machine} has none: remove it"
    elif given(inputs, "autoscaling"):
        yield from _scaled(inputs, topology, hosts)
    else:
        zones = max(1, len(list(at(inputs, "nodeLocations[]"))))
        for path in ("nodeCount", "initialNodeCount"):
            for count in at(inputs, path):
                if isinstance(count, int) and (count, zones) != (hosts, 1):
                    yield path, f"a {topology} slice of {machine} has {hosts} nodes in one zone"


def _scaled(inputs: Mapping[str, Any], topology: str, hosts: int) -> Iterator[Problem]:
    """Multi-host slices come and go as a whole."""
    for scaling in at(inputs, "autoscaling"):
        most = scaling.get("totalMaxNodeCount", scaling.get("maxNodeCount"))
        least = scaling.get("totalMinNodeCount", scaling.get("minNodeCount", 0))
        if isinstance(most, int) and isinstance(least, int) and (most != hosts or least not in (0, hosts)):
            yield "autoscaling", f"a {topology} slice has 0 or {hosts} nodes, never {least} to {most}"


def node_labels(inputs: Mapping[str, Any]) -> dict[str, str]:
    """The labels that pods select a pool of chips by; none for a pool without."""
    for machine in texts(inputs, "nodeConfig.machineType"):
        if machine in _HOSTS:
            alone = next(topology for topology, hosts in _HOSTS[machine].items() if hosts == 1)
            stated = next(texts(inputs, "placementPolicy.tpuTopology"), alone)
            return {ACCELERATOR: _V6E, TOPOLOGY: stated}
    return {}


def chips_of(template: Mapping[str, Any]) -> int:
    """Chips that a pod of the template asks for."""
    limits = (limit for limit in at(template, "spec.containers[].resources.limits"))
    return int(sum(quantity(limit.get(RESOURCE)) or 0 for limit in limits))


def selector_of(template: Mapping[str, Any]) -> dict[str, str]:
    """What a pod of the template selects among nodes with chips."""
    selectors = (dict(found) for found in at(template, "spec.nodeSelector"))
    found = next(selectors, {})
    return {label: found[label] for label in (ACCELERATOR, TOPOLOGY) if label in found}


def worker_group(group: Mapping[str, Any]) -> Iterator[Problem]:
    """The webhook takes a worker group with chips only if its hosts make up the topology."""
    template = group.get("template") or {}
    chips = chips_of(template)
    if not chips:
        return
    topology = selector_of(template).get(TOPOLOGY, "")
    if is_unknown(topology):
        return
    if not topology:
        yield "spec.workerGroupSpecs", f"pods with {RESOURCE} must select {TOPOLOGY}"
        return
    hosts, stated = max(prod(map(int, topology.split("x"))) // chips, 1), group.get("numOfHosts", 1)
    if isinstance(stated, int) and stated != hosts:
        yield (
            "spec.workerGroupSpecs",
            f"numOfHosts {stated}, but a {topology} slice has {hosts} hosts with {chips} chips: "
            "number of workers in worker group not equal to specified topology",
        )
