"""Settings that scenarios on A4 machines (B200) share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal

import pulumi
from pydantic import Field, ValidationInfo, field_validator

from cloud.machines import B200, GPU_LABEL, GPU_RESOURCE, MACHINES, Accelerator
from components.capacity.capacity_chain import CapacityChain
from components.cluster.capacity import CapacityType
from stacks.nodes.placement import PlacedSettings
from stacks.settings.capacity import CapacityList
from stacks.settings.reader import REGION, Hint
from stacks.settings.shared_settings import GkeSettings

MACHINE: Final = MACHINES["a4-highgpu-8g"]
GPUS_PER_NODE: Final = MACHINE.count
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


# Labels of the nodes of a pod on A4: the GPU and its driver. B200 needs R570 or newer.
NODE_LABELS: Final = {GPU_LABEL: B200.name, "cloud.google.com/gke-gpu-driver-version": "latest"}


class A4Settings(PlacedSettings, GkeSettings):
    """Settings of every scenario on A4 machines."""

    gpu: ClassVar[Accelerator] = B200
    capacity_types: CapacityList = (CapacityType.RESERVATION,)
    transport: Literal["tcp", "rdma"] = Field(
        "tcp",
        description="How the GPUs of several nodes reach each other. With `rdma` the network cards of the "
        "GPUs read and write the GPUs' memory, with eight times the bandwidth. Nobody here has seen it run.",
    )
    capacity_zone: Annotated[str | None, Hint(values="a zone such as us-central1-b (not a region)")] = Field(
        None,
        alias="capacity.zone",
        pattern=REGION.replace("$", "-[a-z]$"),
        validate_default=True,
        description="Zone of the nodes that come from no reservation. Several nodes with a list or with "
        "`rdma` need it, because they must be near each other, and `queuedFlexStart` needs it. By default "
        "Google chooses.",
    )

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the accelerator nodes."""
        return replace(super().chain, zone=self.capacity_zone, rdma=self.transport == "rdma")

    @field_validator("transport")
    @classmethod
    def _is_there(cls, transport: str, info: ValidationInfo) -> str:
        if transport == "rdma" and CapacityType.QUEUED_FLEX_START in info.data.get("capacity_types", ()):
            raise ValueError(
                "a ComputeClass of an Autopilot cluster brings rdma, and queuedFlexStart has a Standard "
                "cluster; choose capacity.type flexStart, or transport tcp"
            )
        return transport

    @field_validator("capacity_zone")
    @classmethod
    def _belongs_to_a_list(cls, zone: str | None, info: ValidationInfo) -> str | None:
        region, types = info.data.get("region"), info.data.get("capacity_types")
        if zone and region and zone.rpartition("-")[0] != region:
            raise ValueError(f"{zone} is not a zone of {region}, the stack's gcp:region")
        queued = types == (CapacityType.QUEUED_FLEX_START,)
        if queued and not zone:
            raise ValueError(
                f"missing, and the machines of {types[0]} start in one zone; name it with `pulumi config set "
                "capacity.zone ZONE`"
            )
        # Several nodes with RDMA must be near each other, and a reservation's are.
        needs_no_zone = info.data.get("transport") == "tcp" or types == (CapacityType.RESERVATION,)
        if zone and types and len(types) == 1 and not queued and needs_no_zone:
            raise ValueError("only a list of capacities has a zone; remove it, or add a capacity")
        return zone

    @staticmethod
    def require_one_network(settings: Mapping[str, Any], nodes: int) -> None:
        """Checks that the nodes of one job can reach each other as the settings say.

        Args:
            settings: The fields that are read so far.

        Raises:
            ValueError: If several nodes could come from several zones, or if a single one has RDMA.
        """
        types = settings.get("capacity_types") or ()
        rdma = settings.get("transport") == "rdma"
        if rdma and nodes == 1:
            raise ValueError(
                "transport rdma is between nodes, and there is 1; set it to 2 or more, or choose "
                "transport tcp"
            )
        anywhere = [kind for kind in types if kind is not CapacityType.RESERVATION]
        without_zone = settings.get("capacity_zone", "not valid") is None
        if nodes > 1 and (rdma or len(types) > 1) and anywhere and without_zone:
            raise ValueError(
                f"{nodes} nodes must be in one zone, and {' and '.join(anywhere)} could come from any; name "
                "one with `pulumi config set capacity.zone ZONE`"
            )

    def warn_of_missing_nodes(self, nodes: int) -> None:
        """Warns about settings with which pods would stay pending, or nodes would wait for others.

        https://docs.cloud.google.com/cluster-director/docs/choose-consumption-option
        """
        types = self.capacity_types
        if CapacityType.ON_DEMAND in types:
            pulumi.log.warn(
                "capacity.type onDemand: Google offers A4 by reservation, flex-start and spot; "
                "the pods may stay pending"
            )
        one_by_one = [kind for kind in types if kind in (CapacityType.FLEX_START, CapacityType.SPOT)]
        if nodes > 1 and one_by_one:
            limit = "; capacity.minutes limit that" if len(types) > 1 else ""
            pulumi.log.warn(
                f"capacity.type {one_by_one[0]} creates {nodes} nodes one by one: you pay for the first "
                f"ones while they wait for the last{limit}; only a reservation has all of them at once"
            )
