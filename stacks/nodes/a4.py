"""A4 machines (8 B200 each): their settings, a pod that has one to itself, and the nodes of a job."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal

import pulumi
from pydantic import Field

from cloud.machines import GPU_RESOURCE, MACHINES, Machine
from components.capacity.capacity_chain import CapacityChain
from components.capacity.node_needs import NodeNeeds
from components.capacity.rdma_network import RdmaNetwork, RdmaNetworkArgs
from components.cluster.capacity import CapacityType
from stacks import pins
from stacks.nodes.job_nodes import JobNodes
from stacks.nodes.placement import Placement, QueuedJob
from stacks.platform import StackContext
from stacks.program.platform import ProgramPlatform
from stacks.settings.capacity import (
    CapacityMinutes,
    CapacityTypes,
    CapacityTypesOrQueue,
    ReservationPath,
    capacities,
    chain,
    check_minutes,
    warn_of_no_sale,
)
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.settings.project import ZONE, Project

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


class A4Capacity(ConfigModel):
    """Capacity of A4 machines."""

    capacity_types: CapacityTypes = (CapacityType.RESERVATION,)
    reservation: ReservationPath = None
    capacity_minutes: CapacityMinutes = ()
    transport: Literal["tcp", "rdma", "rdmaWithScript"] = Field(
        "tcp",
        description="How the GPUs of several nodes reach each other. With `rdma` the network cards of the "
        "GPUs read and write the GPUs' memory, with eight times the bandwidth. With `rdmaWithScript` every "
        "node first runs a script that lets pods lock memory: take it if the trainer says that it must. "
        "Nobody here has seen either run.",
    )
    capacity_zone: Annotated[str | None, Hint(values="a zone such as us-central1-b (not a region)")] = Field(
        None,
        alias="capacity.zone",
        pattern=ZONE,
        description="Zone of the nodes that come from no reservation. Several nodes with a list or with "
        "`rdma` need it, because they must be near each other, and `queuedFlexStart` needs it. By default "
        "Google chooses.",
    )

    @property
    def _rdma(self) -> bool:
        """Whether the pods claim network cards."""
        return self.transport != "tcp"

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the accelerator nodes."""
        several = chain(self.capacity_types, self.reservation, self.capacity_minutes)
        return replace(several, zone=self.capacity_zone, always_class=self._rdma)

    @rule("capacity.reservation")
    def _reservation_belongs_to_the_type(self) -> None:
        capacities(self.capacity_types, self.reservation)

    @rule("capacity.minutes", when_set=True)
    def _minutes_belong_to_the_list(self) -> None:
        check_minutes(self.capacity_minutes, self.capacity_types)

    @rule("transport")
    def _transport_has_a_class(self) -> None:
        if self._rdma and CapacityType.QUEUED_FLEX_START in self.capacity_types:
            raise ValueError(
                "a ComputeClass of an Autopilot cluster brings rdma, and queuedFlexStart has a Standard "
                "cluster; choose capacity.type flexStart, or transport tcp"
            )

    @rule("capacity.zone")
    def _zone_is_in_the_region(self, project: Project) -> None:
        zone = self.capacity_zone
        if zone and zone.rpartition("-")[0] != project.region:
            raise ValueError(f"{zone} is not a zone of {project.region}, the stack's gcp:region")

    @rule("capacity.zone")
    def _zone_belongs_to_a_list(self) -> None:
        types, zone = self.capacity_types, self.capacity_zone
        queued = types == (CapacityType.QUEUED_FLEX_START,)
        if queued and not zone:
            raise ValueError(
                f"missing, and the machines of {types[0]} start in one zone; name it with `pulumi config set "
                "capacity.zone ZONE`"
            )
        # Several nodes with RDMA must be near each other, and a reservation's are.
        needs_no_zone = self.transport == "tcp" or types == (CapacityType.RESERVATION,)
        if zone and len(types) == 1 and not queued and needs_no_zone:
            raise ValueError("only a list of capacities has a zone; remove it, or add a capacity")

    def require_cards(self, machine: Machine) -> None:
        """Checks that the machine has the network cards that the transport needs.

        Raises:
            ValueError: If the transport is not set up for the machine.
        """
        if self._rdma and machine is not MACHINE:
            raise ValueError(
                f"{self.transport} is set up for {MACHINE.name} alone, and machine is {machine.name}; choose "
                "transport tcp"
            )

    def require_one_network(self, nodes: int) -> None:
        """Checks that the nodes of one job can reach each other as the settings say.

        Raises:
            ValueError: If several nodes could come from several zones, or if a single one has RDMA.
        """
        types, rdma = self.capacity_types, self._rdma
        if rdma and nodes == 1:
            raise ValueError(
                "transport rdma is between nodes, and there is 1; set it to 2 or more, or choose "
                "transport tcp"
            )
        anywhere = [kind for kind in types if kind is not CapacityType.RESERVATION]
        if nodes > 1 and (rdma or len(types) > 1) and anywhere and self.capacity_zone is None:
            raise ValueError(
                f"{nodes} nodes must be in one zone, and {' and '.join(anywhere)} could come from any; name "
                "one with `pulumi config set capacity.zone ZONE`"
            )

    def warn_of_missing_nodes(self, nodes: int, machine: Machine = MACHINE) -> None:
        """Warns about settings with which pods would stay pending, or nodes would wait for others.

        https://docs.cloud.google.com/cluster-director/docs/choose-consumption-option
        """
        types = self.capacity_types
        warn_of_no_sale(types, machine)
        one_by_one = [kind for kind in types if kind in (CapacityType.FLEX_START, CapacityType.SPOT)]
        if nodes > 1 and one_by_one:
            limit = "; capacity.minutes limit that" if len(types) > 1 else ""
            pulumi.log.warn(
                f"capacity.type {one_by_one[0]} creates {nodes} nodes one by one: you pay for the first "
                f"ones while they wait for the last{limit}; only a reservation has all of them at once"
            )


class A4CapacityOrQueue(A4Capacity):
    """Capacity of A4 machines."""

    capacity_types: CapacityTypesOrQueue = (CapacityType.RESERVATION,)


def a4_nodes(capacity: A4Capacity, pods: int) -> JobNodes:
    """The nodes of a job whose pods have an A4 machine each."""
    return JobNodes(chain=capacity.chain, machine=MACHINE, labels=MACHINE.pod_labels, pods=pods)


def place_on_a4(
    stack: StackContext,
    capacity: A4Capacity,
    nodes: JobNodes,
    platform: ProgramPlatform,
    framework: str,
    run_hours: int | None = None,
) -> Placement:
    """Declares what the pods of a job need to get their nodes. For the arguments see `QueuedJob`."""
    job = QueuedJob(framework=framework, run_hours=run_hours)
    return nodes.place(stack, platform, job, _needs_of_transport(stack, capacity, platform))


def _needs_of_transport(stack: StackContext, capacity: A4Capacity, platform: ProgramPlatform) -> NodeNeeds:
    """Declares what pods need for the transport of the settings. TCP needs nothing."""
    if capacity.transport == "tcp":
        return NodeNeeds()
    network = RdmaNetwork(
        stack.name,
        RdmaNetworkArgs(
            cluster=platform.cluster,
            namespace=platform.namespace,
            bucket=platform.bucket if capacity.transport == "rdmaWithScript" else None,
            plugin_image=pins.NCCL_PLUGIN_IMAGE,
            cards=MACHINE.rdma_cards,
        ),
    )
    return network.needs
