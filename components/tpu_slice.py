"""Slices of TPU v6e (Trillium): their shapes, their machines, and where they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

# What GKE labels TPU nodes with, and what Ray calls their chips.
TPU_LABEL: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY_LABEL: Final = "cloud.google.com/gke-tpu-topology"
V6E: Final = "tpu-v6e-slice"


@dataclass(frozen=True, kw_only=True)
class TpuMachine:
    """A machine type with v6e chips.

    Args:
        name: As Compute Engine calls it.
        chips: TPU chips with 32 GB each.
        pod_cpus: CPUs for the one pod that trains on it; with one thread per core half of the virtual CPUs
            are there, and GKE, its daemons and the GCS FUSE sidecar need some of them.
        pod_memory_gib: GiB of memory for that pod, with the same in mind.
    """

    name: str
    chips: int
    pod_cpus: int
    pod_memory_gib: int


# 44, 180 and 180 virtual CPUs, 176, 720 and 1,440 GB: https://docs.cloud.google.com/tpu/docs/v6e
_ONE: Final = TpuMachine(name="ct6e-standard-1t", chips=1, pod_cpus=14, pod_memory_gib=112)
_FOUR: Final = TpuMachine(name="ct6e-standard-4t", chips=4, pod_cpus=72, pod_memory_gib=560)
_EIGHT: Final = TpuMachine(name="ct6e-standard-8t", chips=8, pod_cpus=72, pod_memory_gib=1120)


@dataclass(frozen=True, kw_only=True)
class TpuSlice:
    """Chips that are wired to each other; it is whole or not there at all.

    Args:
        topology: Chips in each direction, such as `4x4`.
        machine: Type of its hosts.
    """

    topology: str
    machine: TpuMachine

    @property
    def chips(self) -> int:
        """Chips of all hosts together."""
        return prod(map(int, self.topology.split("x")))

    @property
    def hosts(self) -> int:
        """Machines."""
        return self.chips // self.machine.chips

    @property
    def node_labels(self) -> Mapping[str, str]:
        """What a pod selects to run on it."""
        return {TPU_LABEL: V6E, TOPOLOGY_LABEL: self.topology}


# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus. GKE also makes a 2x4 of two
# ct6e-standard-4t; Ray takes every 2x4 for one host with eight chips.
TPU_SLICES: Final = {
    topology: TpuSlice(topology=topology, machine=machine)
    for topology, machine in (
        ("1x1", _ONE),
        ("2x2", _FOUR),
        ("2x4", _EIGHT),
        ("4x4", _FOUR),
        ("4x8", _FOUR),
        ("8x8", _FOUR),
        ("8x16", _FOUR),
        ("16x16", _FOUR),
    )
}

# Zones that offer v6e to everybody, by region: https://docs.cloud.google.com/tpu/docs/regions-zones. Those
# outside the United States were written down in 2026-11 without that page at hand.
V6E_ZONES: Final[Mapping[str, tuple[str, ...]]] = {
    "asia-northeast1": ("asia-northeast1-b",),
    "europe-west4": ("europe-west4-a",),
    "southamerica-west1": ("southamerica-west1-a",),
    "us-central1": ("us-central1-b",),
    "us-east1": ("us-east1-d",),
    "us-east5": ("us-east5-b", "us-east5-a"),
}
# Zones in which flex-start has v6e: https://docs.cloud.google.com/tpu/docs/request-using-flex-start
V6E_FLEX_START_ZONES: Final[Mapping[str, tuple[str, ...]]] = {
    "asia-northeast1": ("asia-northeast1-b",),
    "us-east5": ("us-east5-a",),
}
