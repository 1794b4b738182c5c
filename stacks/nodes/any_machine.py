"""The nodes of a program on any GPU machine of the catalogue, chosen by its name."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import floor
from typing import Final

import pulumi

from cloud.machines import GPU_MACHINES, Machine
from components.base.pod_patch import PodPatch
from components.capacity.capacity_chain import CapacityChain
from components.cluster.capacity import CapacityType
from stacks.nodes.a4 import MACHINE as A4
from stacks.nodes.a4 import POD_SIZE, A4Capacity, place_on_a4
from stacks.nodes.job_nodes import JobNodes
from stacks.nodes.l4 import pod_size
from stacks.nodes.placement import Placement
from stacks.platform import StackContext
from stacks.program.job import ProgramNodes
from stacks.program.platform import ProgramPlatform

MachineName = StrEnum("MachineName", {name: name for name in GPU_MACHINES})
# Spot machines get this long at most. https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
SPOT_GRACE_SECONDS: Final = 25
_GRACE_SECONDS: Final = 600
# Shares of a pod's memory and disk that its volumes may fill.
_OF_MEMORY: Final = 0.25
_OF_DISK: Final = 0.8


@dataclass(frozen=True, kw_only=True)
class MachineNodes:
    """Machines of one type, with a pod on each.

    Args:
        count: Number of machines.
    """

    capacity: A4Capacity
    machine: Machine
    count: int

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the nodes. A class names their machine."""
        return replace(self.capacity.chain, always_class=not self.capacity.chain.queued)

    @property
    def of_job(self) -> JobNodes:
        """The nodes of a job whose pods have a machine each."""
        labels = self.machine.pod_labels
        return JobNodes(chain=self.chain, machine=self.machine, labels=labels, pods=self.count)

    @property
    def spot_alone(self) -> bool:
        """Whether all nodes come from spot."""
        return self.capacity.capacity_types == (CapacityType.SPOT,)

    def grace(self, seconds: int | None) -> int:
        """Seconds of a pod from SIGTERM to its end."""
        return seconds or (SPOT_GRACE_SECONDS if self.spot_alone else _GRACE_SECONDS)

    def check(self) -> None:
        """Checks that Google sells the machine by the capacities.

        Raises:
            ValueError: If it does not.
        """
        if CapacityType.ON_DEMAND in self.capacity.capacity_types and not self.machine.on_demand:
            raise ValueError(
                f"Google does not sell {self.machine.name} with onDemand; choose reservation, flexStart or "
                "spot"
            )

    def warn(self, region: str) -> None:
        """Warns about settings with which pods would stay pending, or runs would lose steps."""
        self.capacity.warn_of_missing_nodes(self.count, self.machine)
        zones = self.machine.model.zones if self.machine.model else {}
        if zones and region not in zones:
            pulumi.log.warn(
                f"gcp:region: {region} is not known to have {self.machine.name}, and these are: "
                f"{', '.join(zones)}; `python -m operations preflight` asks Google"
            )
        if CapacityType.SPOT in self.capacity.capacity_types:
            pulumi.log.warn(
                "capacity.type spot: when Google takes a node back, its pods have at most "
                f"{SPOT_GRACE_SECONDS} seconds; a program that cannot save in that time goes on from its "
                "newest checkpoint"
            )

    def place(self, stack: StackContext, platform: ProgramPlatform, run_hours: int | None) -> Placement:
        """Declares what the pods need to get their nodes."""
        return place_on_a4(stack, self.capacity, self.of_job, platform, "batch/job", run_hours)

    def of_program(self, placement: Placement, grace_seconds: int, patch: PodPatch) -> ProgramNodes:
        """The pod of a program on each node."""
        size = dict(POD_SIZE) if self.machine is A4 else pod_size(self.machine, self.machine.count)
        return ProgramNodes(
            count=self.count,
            size=size,
            selector=placement.selector,
            shared_memory=f"{floor(_OF_MEMORY * _gib(size['memory']))}Gi",
            scratch=f"{floor(_OF_DISK * _gib(size['ephemeral-storage']))}Gi",
            grace_seconds=grace_seconds,
            patch=placement.patch.with_patch(patch),
        )


def _gib(quantity: str) -> int:
    """GiB of a Kubernetes quantity in Gi or Ti."""
    number, unit = int(quantity[:-2]), quantity[-2:]
    return number * 1024 if unit == "Ti" else number
