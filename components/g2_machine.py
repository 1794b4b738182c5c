"""Compute Engine's G2 machines, the ones with L4 GPUs: what is in them, and what pods get of it."""

from dataclasses import dataclass
from math import floor
from typing import Final

L4: Final = "nvidia-l4"
# Boot disk of a node: images, and the scratch space of its pods.
BOOT_DISK_GB: Final = 200

# GKE's daemons on a GPU node (logs, metrics, storage and GPU plugins, metadata server) and the buffer of
# image streaming. Assumed: an upper bound, to be read off a first real node with `kubectl describe node`.
_DAEMON_CPUS: Final = 1.0
_DAEMON_GIB: Final = 2.0

# Shares of CPUs and of GiB of memory that GKE keeps, by size of the slice they are taken from.
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
_KEPT_OF_CPUS: Final = ((1, 0.06), (1, 0.01), (2, 0.005), (float("inf"), 0.0025))
_KEPT_OF_GIB: Final = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))
_EVICTION_GIB: Final = 0.1
_GIB_PER_GB: Final = 1e9 / 2**30


@dataclass(frozen=True, kw_only=True)
class G2Machine:
    """A machine type.

    Args:
        name: As Compute Engine calls it.
        gpus: L4 GPUs with 24 GB each.
        cpus: Virtual CPUs.
        memory_gib: Memory.
    """

    name: str
    gpus: int
    cpus: int
    memory_gib: int

    @property
    def pod_cpus(self) -> int:
        """Whole CPUs that pods on a node of it can have."""
        return floor(self.cpus - _kept(self.cpus, _KEPT_OF_CPUS) - _DAEMON_CPUS)

    @property
    def pod_memory_gib(self) -> int:
        """Whole GiB of memory that pods on a node of it can have."""
        return floor(self.memory_gib - _kept(self.memory_gib, _KEPT_OF_GIB) - _EVICTION_GIB - _DAEMON_GIB)

    @property
    def pod_storage_gib(self) -> int:
        """Whole GiB of the boot disk that pods on a node of it can have.

        GKE keeps the least of half the disk, 6 GiB and 35 %, and 100 GiB; pods are evicted from 90 % on.
        https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
        """
        disk = BOOT_DISK_GB * _GIB_PER_GB
        return floor(disk - min(0.5 * disk, 6 + 0.35 * disk, 100) - 0.1 * disk)


def _kept(size: float, slices: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for width, share in slices:
        kept += min(size, width) * share
        size -= min(size, width)
    return kept


# https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines#g2-vms
G2_MACHINES: Final = {
    machine.name: machine
    for machine in (
        G2Machine(name="g2-standard-4", gpus=1, cpus=4, memory_gib=16),
        G2Machine(name="g2-standard-8", gpus=1, cpus=8, memory_gib=32),
        G2Machine(name="g2-standard-12", gpus=1, cpus=12, memory_gib=48),
        G2Machine(name="g2-standard-16", gpus=1, cpus=16, memory_gib=64),
        G2Machine(name="g2-standard-24", gpus=2, cpus=24, memory_gib=96),
        G2Machine(name="g2-standard-32", gpus=1, cpus=32, memory_gib=128),
        G2Machine(name="g2-standard-48", gpus=4, cpus=48, memory_gib=192),
        G2Machine(name="g2-standard-96", gpus=8, cpus=96, memory_gib=384),
    )
}

# Zones with G2 machines, by region: https://docs.cloud.google.com/compute/docs/gpus/gpu-regions-zones.
# Written down in 2026-11 without that page at hand; a zone that is missing is added here.
_ZONES: Final = {
    "asia-east1": "abc",
    "asia-northeast1": "abc",
    "asia-northeast3": "ab",
    "asia-south1": "abc",
    "asia-southeast1": "abc",
    "europe-west1": "bc",
    "europe-west2": "ab",
    "europe-west3": "ab",
    "europe-west4": "abc",
    "europe-west6": "bc",
    "me-central2": "ac",
    "northamerica-northeast2": "ab",
    "us-central1": "abc",
    "us-east1": "bcd",
    "us-east4": "ac",
    "us-west1": "abc",
    "us-west4": "ac",
}
G2_ZONES: Final = {
    region: tuple(f"{region}-{letter}" for letter in letters) for region, letters in _ZONES.items()
}
