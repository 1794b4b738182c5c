"""Rules of GKE clusters and node pools.

Sources: ConflictsWith of the Google provider's schema (7.45, listed in its documentation), and the
GKE API for what that provider lets through. The provider enforces the former itself, a mock does not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rehearsal.paths import at, given, texts
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


def cluster(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Autopilot or Standard, each with what belongs to it."""
    yield from one_of(
        inputs, "releaseChannel.channel", ("RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED")
    )
    yield from one_of(inputs, "networkingMode", ("VPC_NATIVE", "ROUTES"))
    yield from excludes(inputs, "ipAllocationPolicy", "clusterIpv4Cidr")
    yield from _node_config(inputs, "nodeConfig")
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
    reserved = set(texts(inputs, "nodeConfig.reservationAffinity.consumeReservationType"))
    if given(inputs, "queuedProvisioning.enabled") and reserved != {"NO_RESERVATION"}:
        # hashicorp/terraform-provider-google issue 18341
        yield (
            "nodeConfig.reservationAffinity",
            "queued provisioning needs consumeReservationType NO_RESERVATION",
        )


def _node_config(inputs: Mapping[str, Any], base: str) -> Iterator[Problem]:
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
