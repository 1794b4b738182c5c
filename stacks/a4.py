"""Settings that scenarios on A4 machines (B200) share."""

from typing import ClassVar

import pulumi

from cloud.machines import B200, Accelerator
from components.capacity import CapacityType
from stacks.platform import CapacityKind, GkeSettings


class A4Settings(GkeSettings):
    """Settings of every scenario on A4 machines."""

    gpu: ClassVar[Accelerator] = B200
    capacity_type: CapacityKind = CapacityType.RESERVATION

    def warn_of_missing_nodes(self) -> None:
        """Warns about a setting with which the pods would stay pending.

        https://docs.cloud.google.com/cluster-director/docs/choose-consumption-option
        """
        if self.capacity_type is CapacityType.ON_DEMAND:
            pulumi.log.warn(
                "capacity.type onDemand: Google offers A4 by reservation, flex-start and spot; "
                "the pods may stay pending"
            )
