"""Rules of GKE clusters and node pools.

Sources: ConflictsWith of the Google provider's schema (7.45, listed in its documentation), and the
GKE API for what that provider lets through. The provider enforces the former itself, a mock does not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, given, texts
from rehearsal.rules import tpu
from rehearsal.rules.compute import excludes, one_of
from rehearsal.schema import Problem

# What an Autopilot cluster decides by itself.
_NOT_ON_AUTOPILOT: Final = (
    "addonsConfig.networkPolicyConfig",
    "addonsConfig.dnsCacheConfig",
    "addonsConfig.statefulHaConfig",
    "clusterAutoscaling.enabled",
    "clusterAutoscaling.resourceLimits",
    "binaryAuthorization.enabled",
    "enableShieldedNodes",
    "networkPolicy",
    "nodePools",
    "removeDefaultNodePool",
    "defaultMaxPodsPerNode",
    "enableIntranodeVisibility",
    # Let through by the provider; the platform refuses it or, for nodeConfig, the cluster is replaced
    # on every update (pulumi-gcp issue 2247).
    "nodeConfig",
)
_ZONE: Final = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
_DRIVERS: Final = ("DEFAULT", "LATEST", "INSTALLATION_DISABLED")
_BUILT_IN: Final = {
    **{f"g2-standard-{cpus}": ("nvidia-l4", 1) for cpus in (4, 8, 12, 16, 32)},
    **{f"g2-standard-{cpus}": ("nvidia-l4", cpus // 12) for cpus in (24, 48, 96)},
    "a4-highgpu-8g": ("nvidia-b200", 8),
}


def cluster(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Autopilot or Standard, each with what belongs to it."""
    yield from one_of(
        inputs, "releaseChannel.channel", ("RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED")
    )
    yield from one_of(inputs, "networkingMode", ("VPC_NATIVE", "ROUTES"))
    yield from excludes(inputs, "ipAllocationPolicy", "clusterIpv4Cidr")
    yield from _node_config(inputs, "nodeConfig")
    yield from _node_zones(inputs)
    if given(inputs, "enableAutopilot"):
        yield from _autopilot(inputs)
    elif not given(inputs, "initialNodeCount") and not given(inputs, "nodePools"):
        yield "initialNodeCount", "a Standard cluster starts with a pool: set initialNodeCount (or nodePools)"
    if given(inputs, "removeDefaultNodePool") and given(inputs, "nodePools"):
        yield "removeDefaultNodePool", "conflicts with nodePools"


def _autopilot(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    for path in _NOT_ON_AUTOPILOT:
        if given(inputs, path):
            yield path, "conflicts with enableAutopilot"
    if "ROUTES" in texts(inputs, "networkingMode"):
        yield "networkingMode", "Autopilot clusters are VPC_NATIVE"
    for location in texts(inputs, "location"):
        if _ZONE.fullmatch(location):
            yield "location", f"{location} is a zone; Autopilot clusters are regional"


def node_pool(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Ways to say the same twice, and settings that need each other."""
    yield from excludes(inputs, "name", "namePrefix")
    yield from excludes(inputs, "nodeCount", "initialNodeCount")
    for count in ("autoscaling.totalMinNodeCount", "autoscaling.totalMaxNodeCount"):
        yield from excludes(inputs, count, "autoscaling.minNodeCount", "autoscaling.maxNodeCount")
    yield from one_of(inputs, "autoscaling.locationPolicy", ("BALANCED", "ANY"))
    yield from one_of(inputs, "placementPolicy.type", ("COMPACT",))
    if given(inputs, "placementPolicy.tpuTopology") and not given(inputs, "placementPolicy.type"):
        yield "placementPolicy.type", "a TPU topology needs COMPACT placement"
    yield from _node_config(inputs, "nodeConfig")
    yield from _node_zones(inputs)
    yield from _size(inputs)
    yield from _flex_start(inputs)
    yield from tpu.node_pool(inputs)
    reserved = set(texts(inputs, "nodeConfig.reservationAffinity.consumeReservationType"))
    if given(inputs, "queuedProvisioning.enabled") and reserved != {"NO_RESERVATION"}:
        # hashicorp/terraform-provider-google issue 18341
        yield (
            "nodeConfig.reservationAffinity",
            "queued provisioning needs consumeReservationType NO_RESERVATION",
        )


def _node_zones(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Nodes are in zones of their cluster's region."""
    for location in texts(inputs, "location"):
        region = location.rpartition("-")[0] if _ZONE.fullmatch(location) else location
        for zone in texts(inputs, "nodeLocations[]"):
            if zone.rpartition("-")[0] != region:
                yield "nodeLocations", f"{zone} is no zone of {region}"


def _size(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """A pool starts with nodes or may grow; its limits are in order."""
    counts = ("nodeCount", "initialNodeCount", "autoscaling")
    if not any(given(inputs, count) for count in counts):
        yield "nodeCount", "a pool without nodes that nothing scales"
    for least, most in (("totalMinNodeCount", "totalMaxNodeCount"), ("minNodeCount", "maxNodeCount")):
        for scaling in at(inputs, "autoscaling"):
            low, high = scaling.get(least, 0), scaling.get(most)
            if isinstance(low, int) and isinstance(high, int) and not low <= high:
                yield f"autoscaling.{least}", f"{low} is more than {most} {high}"


def _flex_start(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start-training"""
    if not given(inputs, "nodeConfig.flexStart"):
        return
    if not given(inputs, "autoscaling"):
        yield "autoscaling", "flex-start nodes come when pods ask for them: a pool of them is autoscaled"
    if given(inputs, "management.autoRepair"):
        yield "management.autoRepair", "conflicts with nodeConfig.flexStart"
    if set(texts(inputs, "nodeConfig.reservationAffinity.consumeReservationType")) != {"NO_RESERVATION"}:
        yield "nodeConfig.reservationAffinity", "flex-start needs consumeReservationType NO_RESERVATION"


def _accelerators(inputs: Mapping[str, Any], base: str) -> Iterator[Problem]:
    """Accelerator-optimized machines have their GPUs built in: model and number are no choice.

    https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines
    """
    for machine in texts(inputs, f"{base}.machineType"):
        built_in = _BUILT_IN.get(machine)
        stated = [
            (gpus.get("type"), gpus.get("count"))
            for gpus in at(inputs, f"{base}.guestAccelerators[]")
            if isinstance(gpus, Mapping)
        ]
        if built_in and stated and stated != [built_in]:
            model, count = built_in
            yield f"{base}.guestAccelerators", f"{machine} has {count} {model}"
        if machine.startswith(("e2-", "n2-", "c3-")) and stated:
            yield f"{base}.guestAccelerators", f"{machine} takes no GPUs"


def _node_config(inputs: Mapping[str, Any], base: str) -> Iterator[Problem]:
    yield from _accelerators(inputs, base)
    affinity = f"{base}.reservationAffinity"
    choices = ("SPECIFIC_RESERVATION", "NO_RESERVATION", "ANY_RESERVATION", "UNSPECIFIED")
    yield from one_of(inputs, f"{affinity}.consumeReservationType", choices)
    specific = "SPECIFIC_RESERVATION" in texts(inputs, f"{affinity}.consumeReservationType")
    if specific and not (given(inputs, f"{affinity}.key") and given(inputs, f"{affinity}.values")):
        yield affinity, "SPECIFIC_RESERVATION needs key and values"
    driver = f"{base}.guestAccelerators[].gpuDriverInstallationConfig.gpuDriverVersion"
    yield from one_of(inputs, driver, _DRIVERS)
    yield from one_of(inputs, f"{base}.workloadMetadataConfig.mode", ("GKE_METADATA", "GCE_METADATA"))
    yield from excludes(inputs, f"{base}.spot", f"{base}.preemptible", f"{base}.flexStart")
    for count in at(inputs, f"{base}.guestAccelerators[].count"):
        if isinstance(count, int) and count < 1:
            yield f"{base}.guestAccelerators", "an accelerator count of less than one"
