"""Settings that scenarios on A4 machines (B200) share."""

from collections.abc import Mapping
from typing import ClassVar, Final

import pulumi

from cloud.machines import B200, GPU_LABEL, GPU_RESOURCE, Accelerator
from components.capacity import Capacity, CapacityType
from stacks.shared_settings import CapacityKind, GkeSettings

GPUS_PER_NODE: Final = 8
# A pod that has a node to itself. This is less than the a4-highgpu-8g's 224 vCPU and 3,968 GB: the platform
# reserves a part, and a pod that requests too much is never scheduled.
POD_SIZE: Final[Mapping[str, str]] = {
    "cpu": "160",
    "memory": "1Ti",
    "ephemeral-storage": "240Gi",  # assumption b200-ephemeral-storage
    GPU_RESOURCE: str(GPUS_PER_NODE),
}
POD_SHARED_MEMORY: Final = "64Gi"
POD_SCRATCH: Final = "200Gi"


def pod_selector(capacity: Capacity) -> dict[str, str]:
    """The node selector of a pod on A4: the GPU, its driver and the capacity."""
    return {
        GPU_LABEL: B200.name,
        # B200 needs R570 or newer.
        "cloud.google.com/gke-gpu-driver-version": "latest",
        **capacity.pod_selectors(),
    }


class A4Settings(GkeSettings):
    """Settings of every scenario on A4 machines."""

    gpu: ClassVar[Accelerator] = B200
    capacity_type: CapacityKind = CapacityType.RESERVATION

    def warn_of_missing_nodes(self, nodes: int) -> None:
        """Warns about settings with which pods would stay pending, or nodes would wait for others.

        https://docs.cloud.google.com/cluster-director/docs/choose-consumption-option
        """
        if self.capacity_type is CapacityType.ON_DEMAND:
            pulumi.log.warn(
                "capacity.type onDemand: Google offers A4 by reservation, flex-start and spot; "
                "the pods may stay pending"
            )
        if nodes > 1 and self.capacity_type in (CapacityType.FLEX_START, CapacityType.SPOT):
            pulumi.log.warn(
                f"capacity.type {self.capacity_type} creates {nodes} nodes one by one: you pay for the first "
                "ones while they wait for the last; only a reservation has all of them at once"
            )
