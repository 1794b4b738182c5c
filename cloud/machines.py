"""The catalogue of machines: their parts, their zones, and what GKE leaves to pods.

https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines
https://docs.cloud.google.com/compute/docs/general-purpose-machines
https://docs.cloud.google.com/tpu/docs/v6e
https://docs.cloud.google.com/tpu/docs/v5e
https://docs.cloud.google.com/tpu/docs/v5p
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, inf, prod
from typing import Final

from cloud.accelerators import (
    A100,
    A100_80GB,
    B200,
    DRIVER_LABEL,
    GPU_DRIVER,
    GPU_LABEL,
    H100,
    H100_MEGA,
    H200,
    L4,
    RTX_PRO_6000,
    TPU_LABEL,
    V5E,
    V5P,
    V6E,
    Accelerator,
    Tpu,
)

# Resources by which pods ask for accelerators.
GPU_RESOURCE: Final = "nvidia.com/gpu"
TPU_RESOURCE: Final = "google.com/tpu"
# The machine of a node pool that names none.
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/node-pools
DEFAULT: Final = "e2-medium"

# Boot disks by the beginning of a machine's name. All others start from hyperdisk-balanced alone.
# https://github.com/GoogleCloudPlatform/cluster-autoscaler
# (pkg/cloudprovider/gke/machinetypes/deprecated_machine_types_config.go, 2026-08-21)
_PERSISTENT_DISKS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("e2-", "n2-"), ("pd-balanced", "pd-ssd", "pd-standard")),
    **dict.fromkeys(("g2-", "a2-"), ("pd-balanced", "pd-ssd")),
    **dict.fromkeys(("a3-highgpu-", "a3-megagpu-"), ("pd-balanced", "hyperdisk-balanced")),
    # https://docs.cloud.google.com/tpu/docs/attach-durable-block-storage
    **dict.fromkeys(("ct5lp-", "ct5p-"), ("pd-balanced",)),
}
# Families whose CPUs have a quota of their own, such as N2_CPUS. CPUs of other families count for CPUS.
# https://docs.cloud.google.com/compute/docs/reference/rest/v1/regions
_OWN_CPU_QUOTA: Final = frozenset(["c2", "c2d", "c3", "m1", "m2", "m3", "n2", "n2d", "t2a", "t2d"])

# Shares of CPUs and of GiB of memory that GKE keeps: of the first 1 CPU 6 %, of the next 1 %, and so on. A
# shared-core machine gives up a fixed number of CPUs (assumption gke-node-allocatable).
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
_KEPT_CPUS: Final = ((1, 0.06), (1, 0.01), (2, 0.005), (inf, 0.0025))
_KEPT_GIB: Final = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (inf, 0.02))
_KEPT_OF_SHARED_CORE: Final = 1.06
_EVICTION_GIB: Final = 100 / 1024
_GIB_PER_GB: Final = 1e9 / 2**30
# GKE's daemons on a GPU node (logs, metrics, storage and GPU plugins, metadata server) and the buffer of
# image streaming: an upper bound, assumption gke-node-daemons.
_DAEMON_CPUS: Final = 1.0
_DAEMON_GIB: Final = 2.0
_LOCAL_SSD_GIB: Final = 375
# Slices of several machines with four chips each.
_FLAT_SLICES: Final = "4x4 4x8 8x8 8x16 16x16"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine type.

    Args:
        model: The accelerators that are built into it, None for none.
        topologies: Shapes of slices whose hosts are such machines.
        stated: CPUs and GiB of memory for a pod that has the machine to itself. None computes them
            (assumption tpu-node-size).
        local_ssds: Local SSDs of 375 GiB that every such machine has. Pods' ephemeral storage is on them.
        rdma_cards: Network cards that read and write the GPUs' memory.
        price_series: Name in the prices of its CPUs and memory, if it is not the family's.
        on_demand: Whether Google sells it without reservation, flex-start or spot.
        by_calendar: Whether Google's calendar books it for a time to come.
    """

    name: str
    cpus: int
    memory_gib: int
    model: Accelerator | None = None
    count: int = 0
    topologies: tuple[str, ...] = ()
    stated: tuple[int, int] | None = None
    local_ssds: int = 0
    rdma_cards: int = 0
    price_series: str = ""
    on_demand: bool = True
    by_calendar: bool = False

    @property
    def family(self) -> str:
        """Such as `g2`."""
        return self.name.partition("-")[0]

    @property
    def boot_disks(self) -> tuple[str, ...]:
        """Types of disks from which it can start. The first is the default."""
        named = (disks for start, disks in _PERSISTENT_DISKS.items() if self.name.startswith(start))
        return next(named, ("hyperdisk-balanced",))

    @property
    def disk_type(self) -> str:
        """Type of the disks from which nodes of it start."""
        return self.boot_disks[0]

    @property
    def accelerator(self) -> str:
        """Name of the accelerators, empty for none."""
        return self.model.name if self.model else ""

    @property
    def is_tpu(self) -> bool:
        """Whether the accelerators are TPU chips."""
        return isinstance(self.model, Tpu)

    @property
    def local_ssd_gib(self) -> int:
        """GiB of its local SSDs."""
        return self.local_ssds * _LOCAL_SSD_GIB

    @property
    def price_family(self) -> str:
        """Name in the prices of its CPUs and memory."""
        return self.price_series or self.family

    @property
    def cpu_quota(self) -> str:
        """Metric of the quota that its CPUs count for, empty for none."""
        if self.model:
            return self.model.cpu_quota
        return f"{self.family}_cpus" if self.family in _OWN_CPU_QUOTA else "cpus"

    @property
    def resource(self) -> str:
        """The resource by which pods ask for the accelerators."""
        return TPU_RESOURCE if self.is_tpu else GPU_RESOURCE

    @property
    def node_labels(self) -> Mapping[str, str]:
        """Labels of its nodes that name the accelerators, without the topology."""
        if not self.model:
            return {}
        return {TPU_LABEL if self.is_tpu else GPU_LABEL: self.accelerator}

    @property
    def pod_labels(self) -> Mapping[str, str]:
        """Labels by which a pod selects such machines on Autopilot, which then installs the driver."""
        return {**self.node_labels, **({} if self.is_tpu else {DRIVER_LABEL: GPU_DRIVER})}

    @property
    def allocatable_cpus(self) -> float:
        """CPUs that GKE leaves to pods and daemons."""
        shared_core = self.family == "e2" and "standard" not in self.name
        return self.cpus - (_KEPT_OF_SHARED_CORE if shared_core else _kept(self.cpus, _KEPT_CPUS))

    @property
    def allocatable_gib(self) -> float:
        """GiB of memory that GKE leaves to pods and daemons before it evicts pods."""
        return self.memory_gib - _kept(self.memory_gib, _KEPT_GIB) - _EVICTION_GIB

    @property
    def pod_cpus(self) -> int:
        """Whole CPUs that pods on a node of it can have beside GKE's daemons."""
        return self.stated[0] if self.stated else floor(self.allocatable_cpus - _DAEMON_CPUS)

    @property
    def pod_memory_gib(self) -> int:
        """Whole GiB of memory that pods on a node of it can have beside GKE's daemons."""
        return self.stated[1] if self.stated else floor(self.allocatable_gib - _DAEMON_GIB)

    @property
    def own_topology(self) -> str:
        """The shape of the slice that one such machine is, empty for a machine without TPU chips."""
        return next((shape for shape in self.topologies if chips_in(shape) == self.count), "")


def allocatable_disk_gib(disk_gb: int) -> float:
    """GiB of a boot disk that pods can use.

    GKE keeps the least of half the disk, 6 GiB and 35 %, and 100 GiB. It evicts pods from 90 % on.
    https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
    """
    disk = disk_gb * _GIB_PER_GB
    return disk - min(0.5 * disk, 6 + 0.35 * disk, 100) - 0.1 * disk


def _kept(size: float, slices: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for width, share in slices:
        kept += min(size, width) * share
        size -= min(size, width)
    return kept


def chips_in(topology: str) -> int:
    """Chips of a slice of this shape."""
    return prod(map(int, topology.split("x")))


def _g2(cpus: int, gpus: int) -> Machine:
    return Machine(name=f"g2-standard-{cpus}", cpus=cpus, memory_gib=4 * cpus, model=L4, count=gpus)


def _a2(shape: str, gpus: int, model: Accelerator, memory_gib: int, local_ssds: int) -> Machine:
    """A machine with A100, and 12 CPUs and so much memory for each."""
    return Machine(
        name=f"a2-{shape}-{gpus}g",
        cpus=12 * gpus,
        memory_gib=memory_gib * gpus,
        model=model,
        count=gpus,
        local_ssds=local_ssds * gpus,
    )


def _a3_high(gpus: int) -> Machine:
    """A machine with H100. Google sells the small ones by flex-start and spot alone."""
    return Machine(
        name=f"a3-highgpu-{gpus}g",
        cpus=26 * gpus,
        memory_gib=234 * gpus,
        model=H100,
        count=gpus,
        local_ssds=2 * gpus,
        on_demand=gpus == 8,
        by_calendar=gpus == 8,
    )


def _g4(gpus: int) -> Machine:
    return Machine(
        name=f"g4-standard-{48 * gpus}",
        cpus=48 * gpus,
        memory_gib=180 * gpus,
        model=RTX_PRO_6000,
        count=gpus,
    )


def _tpu(
    name: str,
    model: Tpu,
    chips: int,
    cpus: int,
    memory_gib: int,
    topologies: str,
    stated: tuple[int, int],
) -> Machine:
    """A machine with TPU chips.

    With one thread per core, a pod sees half of the virtual CPUs. GKE, its daemons and the GCS FUSE sidecar
    need some of the CPUs and of the memory.
    """
    return Machine(
        name=f"{name}-{chips}t",
        cpus=cpus,
        memory_gib=memory_gib,
        model=model,
        count=chips,
        topologies=tuple(topologies.split()),
        stated=stated,
        by_calendar=True,
    )


def _standard(family: str, *sizes: int) -> list[Machine]:
    return [Machine(name=f"{family}-standard-{cpus}", cpus=cpus, memory_gib=4 * cpus) for cpus in sizes]


MACHINES: Final[Mapping[str, Machine]] = {
    machine.name: machine
    for machine in (
        # Sizes of GPU machines: the source of `_PERSISTENT_DISKS`. What is sold how: assumption gpu-offers.
        # g4-standard-6 to -24 are left out: they have a part of a GPU, and the label of a whole one. So are
        # machines with ARM processors (a4x), for which the images here have no build.
        Machine(
            name="a4-highgpu-8g",
            cpus=224,
            memory_gib=3968,
            model=B200,
            count=8,
            local_ssds=32,
            rdma_cards=8,
            on_demand=False,
            by_calendar=True,
        ),
        Machine(
            name="a3-ultragpu-8g",
            cpus=224,
            memory_gib=2952,
            model=H200,
            count=8,
            local_ssds=32,
            rdma_cards=8,
            price_series="a3ultra",
            on_demand=False,
            by_calendar=True,
        ),
        Machine(
            name="a3-megagpu-8g",
            cpus=208,
            memory_gib=1872,
            model=H100_MEGA,
            count=8,
            local_ssds=16,
            price_series="a3plus",
            by_calendar=True,
        ),
        *map(_a3_high, (1, 2, 4, 8)),
        *(_a2("highgpu", gpus, A100, 85, local_ssds=0) for gpus in (1, 2, 4, 8)),
        *(_a2("ultragpu", gpus, A100_80GB, 170, local_ssds=1) for gpus in (1, 2, 4, 8)),
        *map(_g4, (1, 2, 4, 8)),
        *(_g2(cpus, 1) for cpus in (4, 8, 12, 16)),
        *(_g2(24, 2), _g2(32, 1), _g2(48, 4), _g2(96, 8)),
        # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
        # Names of slices end at 256 chips. Larger ones of v5p are left out.
        _tpu("ct6e-standard", V6E, 1, 44, 176, "1x1", (14, 112)),
        _tpu("ct6e-standard", V6E, 4, 180, 720, f"2x2 2x4 {_FLAT_SLICES}", (72, 560)),
        _tpu("ct6e-standard", V6E, 8, 180, 1440, "2x4", (72, 1120)),
        _tpu("ct5lp-hightpu", V5E, 1, 24, 48, "1x1", (5, 30)),
        _tpu("ct5lp-hightpu", V5E, 4, 112, 192, f"2x2 2x4 {_FLAT_SLICES}", (48, 160)),
        _tpu("ct5lp-hightpu", V5E, 8, 224, 384, "2x4", (96, 340)),
        _tpu("ct5p-hightpu", V5P, 4, 208, 448, "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8", (90, 400)),
        Machine(name=DEFAULT, cpus=2, memory_gib=4),
        *_standard("e2", 2, 4, 8, 16, 32),
        *_standard("n2", 4, 8, 16, 32, 64),
    )
}
GPU_MACHINES: Final = {
    name: machine for name, machine in MACHINES.items() if machine.model and not machine.is_tpu
}
# Machines with L4 GPUs.
G2_MACHINES: Final = {name: machine for name, machine in MACHINES.items() if machine.model is L4}
