"""Rules of GKE's nodes, in the configuration of a cluster or of a node pool.

Sources: ConflictsWith in the Google provider's schema (7.45, listed in its documentation). The GKE API for
what that provider lets through.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cloud.inputs import at, is_set, numbers, objects, texts
from cloud.machines import MACHINES, Machine
from cloud.record import Inputs, Problem
from cloud.rules import ZONE, at_least, excludes, labels, one_of
from cloud.slices import Slice

_AFFINITY: Final = "nodeConfig.reservationAffinity"
_GPUS: Final = "nodeConfig.guestAccelerators"
# https://docs.cloud.google.com/compute/docs/disks
_DISKS: Final = (
    *("pd-standard", "pd-balanced", "pd-ssd", "pd-extreme", "hyperdisk-balanced"),
    *("hyperdisk-balanced-high-availability", "hyperdisk-extreme", "hyperdisk-ml", "hyperdisk-throughput"),
)
_DURATION: Final = re.compile(r"\d+(\.\d{1,9})?s")


def is_zonal(inputs: Inputs) -> bool:
    """Whether a cluster's control plane is in a single zone."""
    return any(map(ZONE.fullmatch, texts(inputs, "location")))


def node_labels(inputs: Inputs) -> Mapping[str, str]:
    """The labels by which pods select a node pool of TPU chips. Empty for a pool without chips."""
    for machine in _machines(inputs):
        if machine.is_tpu:
            topology = next(texts(inputs, "placementPolicy.tpuTopology"), machine.own_topology)
            return Slice(topology=topology, machine=machine).node_labels
    return {}


def node_limits(inputs: Inputs) -> tuple[int, int]:
    """The smallest and the largest number of nodes of a pool, in all its zones together."""
    zones = max(1, len(list(at(inputs, "nodeLocations[]"))))
    for scaling in objects(inputs, "autoscaling"):
        by_zone = (int(scaling.get(f"{end}NodeCount") or 0) * zones for end in ("min", "max"))
        total = (int(scaling.get(f"total{end}NodeCount") or 0) for end in ("Min", "Max"))
        least, most = (one or other for one, other in zip(total, by_zone, strict=True))
        return least, most
    fixed = int(inputs.get("nodeCount") or 0) * zones
    return fixed, fixed


def node_zones(inputs: Inputs) -> Iterator[Problem]:
    """Nodes are in zones of their cluster's region."""
    for location in texts(inputs, "location"):
        region = location.rpartition("-")[0] if ZONE.fullmatch(location) else location
        for zone in texts(inputs, "nodeLocations[]"):
            if zone.rpartition("-")[0] != region:
                yield "nodeLocations", f"{zone} is no zone of {region}"


def node_config(inputs: Inputs) -> Iterator[Problem]:
    """Checks reservation, driver, metadata, disks and labels. Kinds of capacity exclude each other."""
    base = "nodeConfig"
    choices = ("SPECIFIC_RESERVATION", "NO_RESERVATION", "ANY_RESERVATION", "UNSPECIFIED")
    yield from one_of(inputs, f"{_AFFINITY}.consumeReservationType", *choices)
    specific = "SPECIFIC_RESERVATION" in texts(inputs, f"{_AFFINITY}.consumeReservationType")
    if specific and not (is_set(inputs, f"{_AFFINITY}.key") and is_set(inputs, f"{_AFFINITY}.values")):
        yield _AFFINITY, "SPECIFIC_RESERVATION needs key and values"
    driver = f"{_GPUS}[].gpuDriverInstallationConfig.gpuDriverVersion"
    yield from one_of(inputs, driver, "DEFAULT", "LATEST", "INSTALLATION_DISABLED")
    yield from one_of(inputs, f"{base}.workloadMetadataConfig.mode", "GKE_METADATA", "GCE_METADATA")
    effects = ("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")
    yield from one_of(inputs, f"{base}.taints[].effect", *effects)
    for disk in ("diskType", "bootDisk.diskType"):
        yield from one_of(inputs, f"{base}.{disk}", *_DISKS)
    for text in texts(inputs, f"{base}.maxRunDuration"):
        if not _DURATION.fullmatch(text):
            yield f"{base}.maxRunDuration", f"{text!r} is not a duration such as 604800s"
    yield from at_least(inputs, 1, f"{_GPUS}[].count")
    yield from at_least(inputs, 10, f"{base}.diskSizeGb", f"{base}.bootDisk.sizeGb")
    yield from excludes(inputs, f"{base}.spot", f"{base}.preemptible", f"{base}.flexStart")
    yield from labels(inputs, f"{base}.resourceLabels")


def machine_type(inputs: Inputs) -> Iterator[Problem]:
    """The machine type is in the catalogue. The GPUs are those that are built into it.

    https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines
    """
    for name in texts(inputs, "nodeConfig.machineType"):
        if name not in MACHINES:
            near = difflib.get_close_matches(name, MACHINES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield "nodeConfig.machineType", f"{name} is not in cloud/machines.py: add it there{hint}"
    for machine in _machines(inputs):
        stated = [(gpus.get("type"), gpus.get("count")) for gpus in objects(inputs, f"{_GPUS}[]")]
        if stated and (machine.is_tpu or not machine.model):
            yield _GPUS, f"{machine.name} takes no GPUs"
        elif stated and stated != [(machine.accelerator, machine.count)]:
            yield _GPUS, f"{machine.name} has {machine.count} {machine.accelerator}"


def boot_disk(inputs: Inputs) -> Iterator[Problem]:
    """The machine can start from a disk of this type."""
    for machine in _machines(inputs):
        for path in ("nodeConfig.diskType", "nodeConfig.bootDisk.diskType"):
            for disk in texts(inputs, path):
                if disk not in machine.boot_disks:
                    yield path, f"{machine.name} takes no {disk}: give {machine.disk_type}"


def _machines(inputs: Inputs) -> Iterator[Machine]:
    """The machine that the inputs name, if it is known."""
    return (MACHINES[name] for name in texts(inputs, "nodeConfig.machineType") if name in MACHINES)


def settings(inputs: Inputs) -> Iterator[Problem]:
    """Checks settings that exclude or need each other, and the numbers of nodes."""
    yield from excludes(inputs, "name", "namePrefix")
    yield from excludes(inputs, "nodeCount", "initialNodeCount")
    for count in ("autoscaling.totalMinNodeCount", "autoscaling.totalMaxNodeCount"):
        yield from excludes(inputs, count, "autoscaling.minNodeCount", "autoscaling.maxNodeCount")
    yield from one_of(inputs, "autoscaling.locationPolicy", "BALANCED", "ANY")
    yield from one_of(inputs, "placementPolicy.type", "COMPACT")
    yield from one_of(inputs, "upgradeSettings.strategy", "SURGE", "BLUE_GREEN")
    if is_set(inputs, "placementPolicy.tpuTopology") and not is_set(inputs, "placementPolicy.type"):
        yield "placementPolicy.type", "a TPU topology needs COMPACT placement"
    counts = ("nodeCount", "initialNodeCount", "autoscaling")
    if not any(is_set(inputs, count) for count in counts):
        yield "nodeCount", "a pool without nodes that nothing scales"
    for least, most in (("totalMinNodeCount", "totalMaxNodeCount"), ("minNodeCount", "maxNodeCount")):
        for low in numbers(inputs, f"autoscaling.{least}"):
            for high in numbers(inputs, f"autoscaling.{most}"):
                if low > high:
                    yield f"autoscaling.{least}", f"{low} is more than {most} {high}"


def flex_start(inputs: Inputs) -> Iterator[Problem]:
    """https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start-training"""
    if not is_set(inputs, "nodeConfig.flexStart"):
        return
    if not is_set(inputs, "autoscaling"):
        yield "autoscaling", "flex-start nodes come when pods ask for them: a pool of them is autoscaled"
    if is_set(inputs, "management.autoRepair"):
        yield "management.autoRepair", "conflicts with nodeConfig.flexStart"
    if set(texts(inputs, f"{_AFFINITY}.consumeReservationType")) != {"NO_RESERVATION"}:
        yield _AFFINITY, "flex-start needs consumeReservationType NO_RESERVATION"


def queued(inputs: Inputs) -> Iterator[Problem]:
    """Nodes that come all together for a request.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest
    """
    if not is_set(inputs, "queuedProvisioning.enabled"):
        return
    if not is_set(inputs, "nodeConfig.flexStart"):
        yield "nodeConfig.flexStart", "nodes come all together only by flex-start"
    if any(numbers(inputs, "autoscaling.totalMinNodeCount")) or any(
        numbers(inputs, "autoscaling.minNodeCount")
    ):
        yield "autoscaling", "a pool whose nodes come by requests has no minimum"
    if is_set(inputs, "nodeConfig.maxRunDuration"):
        yield (
            "nodeConfig.maxRunDuration",
            "the request says for how long, and a pool that says it too may be refused",
        )
    if is_set(inputs, "placementPolicy") and not is_set(inputs, "placementPolicy.tpuTopology"):
        yield "placementPolicy", "GKE refuses compact placement of GPUs with queuedProvisioning"


def tpu_slice(inputs: Inputs) -> Iterator[Problem]:
    """A pool with TPU chips is a whole slice, and states what such machines need.

    https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
    """
    for machine in _machines(inputs):
        if not machine.is_tpu:
            if is_set(inputs, "placementPolicy.tpuTopology"):
                yield "placementPolicy.tpuTopology", f"{machine.name} has no TPU chips"
            continue
        if not is_set(inputs, "nodeConfig.reservationAffinity.consumeReservationType"):
            yield _AFFINITY, f"must be stated for {machine.name}: SPECIFIC_RESERVATION, or NO_RESERVATION"
        yield from _limits_by_zone(inputs)
        for topology in texts(inputs, "placementPolicy.tpuTopology"):
            yield from _slice(inputs, machine, topology)


def _slice(inputs: Inputs, machine: Machine, topology: str) -> Iterator[Problem]:
    wanted = Slice(topology=topology, machine=machine)
    if topology not in machine.topologies:
        shapes = ", ".join(machine.topologies)
        reason = f"no {topology} slice is made of {machine.name}; these are: {shapes}"
        yield "placementPolicy.tpuTopology", reason
    elif wanted.hosts == 1:
        yield "placementPolicy.tpuTopology", f"a slice of one {machine.name} has none: remove it"
    elif is_set(inputs, "autoscaling"):
        yield from _scaled(inputs, topology, wanted.hosts)
    else:
        zones = max(1, len(list(at(inputs, "nodeLocations[]"))))
        for path in ("nodeCount", "initialNodeCount"):
            for count in numbers(inputs, path):
                if (count, zones) != (wanted.hosts, 1):
                    reason = f"a {topology} slice of {machine.name} has {wanted.hosts} nodes in one zone"
                    yield path, reason


def _limits_by_zone(inputs: Inputs) -> Iterator[Problem]:
    """Autoscaled TPU chips have limits per zone, because a slice is in one zone.

    Assumption tpu-limits-by-zone.
    https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/5111
    """
    for limit, instead in (("totalMinNodeCount", "minNodeCount"), ("totalMaxNodeCount", "maxNodeCount")):
        if is_set(inputs, f"autoscaling.{limit}"):
            yield f"autoscaling.{limit}", f"a pool of TPU chips has limits by zone: give {instead}"
    if is_set(inputs, "autoscaling.locationPolicy"):
        yield "autoscaling.locationPolicy", "a pool of TPU chips is in one zone: remove it"


def _scaled(inputs: Inputs, topology: str, hosts: int) -> Iterator[Problem]:
    """Multi-host slices come and go as a whole, in one zone."""
    if len(list(at(inputs, "nodeLocations[]"))) > 1:
        yield "nodeLocations", f"a {topology} slice is in one zone"
    for scaling in objects(inputs, "autoscaling"):
        most, least = scaling.get("maxNodeCount"), scaling.get("minNodeCount", 0)
        if isinstance(most, int) and isinstance(least, int) and (most != hosts or least not in (0, hosts)):
            yield "autoscaling", f"a {topology} slice has 0 or {hosts} nodes, never {least} to {most}"
