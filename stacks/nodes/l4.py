"""L4 machines: the regions that have them, and the size and the node selector of a pod."""

from math import floor
from typing import Final

from cloud.accelerators import DRIVER_LABEL, GPU_DRIVER
from cloud.machines import L4, Machine, allocatable_disk_gib
from components.cluster.capacity import Capacity

# Part of a node's boot disk, in GB, for each pod that the node's GPUs can serve: for images and scratch
# space.
_DISK_GB_PER_POD: Final = 200
# A pod requests this share of the CPUs, memory and disk that its GPUs' part of a node can offer to pods. The
# rest is a margin, because a pod that requests too much is never scheduled (assumption gke-node-daemons).
_REQUESTED_SHARE: Final = 0.75
# The driver, chosen by a pod on Autopilot.
DRIVER: Final = {DRIVER_LABEL: GPU_DRIVER}


def require_l4(region: str) -> None:
    """Checks that a region has L4 GPUs.

    Raises:
        ValueError: If it has none.
    """
    if region not in L4.zones:
        raise ValueError(f"{region} has no zone with L4 GPUs; these have: {', '.join(L4.zones)}")


def autopilot_selector(capacity: Capacity) -> dict[str, str]:
    """What a pod adds to the GPU's label on Autopilot: the driver, and the capacity."""
    return {**DRIVER, **capacity.pod_selectors()}


def disk_gb(machine: Machine, gpus: int) -> int:
    """Size in GB of a node's boot disk, for pods with `gpus` GPUs each."""
    return _DISK_GB_PER_POD * (machine.count // gpus)


def pod_size(machine: Machine, gpus: int) -> dict[str, str]:
    """Requests and limits of a pod with `gpus` GPUs of a machine."""
    share = _REQUESTED_SHARE * gpus / machine.count
    return {
        "cpu": str(floor(share * machine.pod_cpus)),
        "memory": f"{floor(share * machine.pod_memory_gib)}Gi",
        "ephemeral-storage": f"{floor(share * allocatable_disk_gib(disk_gb(machine, gpus)))}Gi",
        machine.resource: str(gpus),
    }
