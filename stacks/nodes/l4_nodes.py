"""The nodes of l4-kueue: their machines, number and zones."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

import pulumi
from pydantic import Field

from cloud.machines import G2_MACHINES, L4, Machine
from components.capacity.capacity_chain import CapacityChain, class_name
from components.capacity.compute_class import CLASS_LABEL, GPU_NODES
from components.cluster.capacity import CapacityType
from components.cluster.standard_cluster import NodePool, NodePoolArgs
from stacks.nodes.l4 import autopilot_selector, disk_gb, pod_size, require_l4
from stacks.nodes.placement import declare_classes
from stacks.nodes.price import price_of_machines
from stacks.platform import GkePlatform, StackContext
from stacks.settings.capacity import (
    CapacityMinutes,
    CapacityTypes,
    ReservationPath,
    capacities,
    chain,
    check_minutes,
)
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.settings.project import Project

# The workloads have the tutorial's sizes: a server spreads its model over two GPUs of one machine, and the
# fine-tune has two pods with two GPUs each.
GPUS_PER_POD: Final = 2
TRAINING_PODS: Final = 2


# Marks the nodes of a capacity, for Kueue.
_CAPACITY_LABEL: Final = "llm-stacks/capacity"

_MachineType = StrEnum("_MachineType", {name: name for name in G2_MACHINES})
# The tutorial's machine. On Autopilot a pod with two L4 gets the same.
_DEFAULT_MACHINE: Final = _MachineType("g2-standard-24")


class L4Nodes(ConfigModel):
    """Machines and capacity."""

    capacity_types: CapacityTypes = (CapacityType.ON_DEMAND,)
    reservation: ReservationPath = None
    capacity_minutes: CapacityMinutes = ()
    cluster_mode: Literal["standard", "autopilot"] = Field(
        "standard",
        description="Mode of the cluster: `standard` has nodes of your choice. With `autopilot` Google "
        "chooses the nodes pod by pod, and bills by the pod.",
    )
    machine_type: _MachineType = Field(
        _DEFAULT_MACHINE,
        description="Machine type of the nodes, only on a Standard cluster. It also decides how much CPU, "
        "memory and disk a pod requests.",
    )
    nodes: int = Field(
        3,
        ge=1,
        le=100,
        description="Number of machines that the queue may fill. The node pool never has more. With a list "
        "of capacities this is the number for each of them.",
    )
    min_nodes: Annotated[
        int | None,
        Field(ge=0, le=100),
        Hint(values="a whole number from 0 to 100", default="`nodes`, and 0 with `flexStart` or a list"),
    ] = Field(
        None,
        description="Fewest machines, only on a Standard cluster. Below `nodes` the autoscaler chooses the "
        "number. By default all `nodes`, with `flexStart` or a list of capacities none.",
    )
    zones: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Hint(values="a zone or a list of zones", default="the region's first zone with L4"),
    ] = Field(
        (),
        description="Zones of the nodes, one or a list, only on a Standard cluster. By default the region's "
        "first zone with L4.",
    )

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the accelerator nodes."""
        return chain(self.capacity_types, self.reservation, self.capacity_minutes)

    @property
    def machine(self) -> Machine:
        """Machine of the nodes, in the catalogue."""
        return G2_MACHINES[self.machine_type]

    @property
    def pod_size(self) -> dict[str, str]:
        """Requests and limits of a pod."""
        return pod_size(self.machine, GPUS_PER_POD)

    @property
    def disk_gb(self) -> int:
        """Size in GB of a node's boot disk."""
        return disk_gb(self.machine, GPUS_PER_POD)

    def price_of(self, gpus: int) -> dict[str, str]:
        """The environment variable with the price of so many GPUs with their part of the machines."""
        return price_of_machines(
            self.chain,
            self.machine,
            gpus / self.machine.count,
            autopilot=self.autopilot,
            disk_gb=0 if self.autopilot else self.disk_gb,
        )

    @property
    def autopilot(self) -> bool:
        """Whether the cluster is an Autopilot cluster."""
        return self.cluster_mode == "autopilot"

    @property
    def minimum(self) -> int:
        """Fewest machines."""
        if self.min_nodes is not None:
            return self.min_nodes
        # Flex-start creates machines when pods request them.
        return 0 if self._comes_by_need else self.nodes

    def zones_in(self, region: str) -> tuple[str, ...]:
        """Zones of the nodes."""
        return tuple(dict.fromkeys(self.zones)) or L4.zones[region][:1]

    @property
    def gpus_of_queue(self) -> int:
        """GPUs in the queue."""
        return self.nodes * self.machine.count

    @property
    def flavors(self) -> dict[str, Mapping[str, str]]:
        """Labels of the nodes of each capacity, by the name of its flavor in Kueue."""
        if not self.chain.is_list:
            return {self.machine.accelerator: self.machine.node_labels}
        label = CLASS_LABEL if self.autopilot else _CAPACITY_LABEL
        return {name: {label: name} for name in self.chain.minutes_by_class()}

    @property
    def tolerations(self) -> list[Mapping[str, str]]:
        """Taints that Kueue lets the pods tolerate."""
        return [GPU_NODES] if self.autopilot and self.chain.is_list else []

    @property
    def pod_selector(self) -> dict[str, str]:
        """Node selector of the pods. Kueue adds the labels of a flavor."""
        if self.autopilot and self.chain.is_list:
            return {}
        labels = dict(self.machine.node_labels)
        return labels | autopilot_selector(self.chain.capacities[0]) if self.autopilot else labels

    @property
    def _comes_by_need(self) -> bool:
        """Whether there is no machine before a pod requests it."""
        return len(self.capacity_types) > 1 or self.capacity_types[0] is CapacityType.FLEX_START

    @rule("gcp:region")
    def _region_has_l4(self, project: Project) -> None:
        require_l4(project.region)

    @rule("capacity.reservation")
    def _reservation_belongs_to_the_type(self) -> None:
        capacities(self.capacity_types, self.reservation)

    @rule("capacity.minutes", when_set=True)
    def _minutes_belong_to_the_list(self) -> None:
        check_minutes(self.capacity_minutes, self.capacity_types)

    @rule("machineType", when_set=True)
    def _machine_is_ours_to_choose(self) -> None:
        self._require_standard("machineType")

    @rule("machineType")
    def _machine_holds_a_server(self) -> None:
        gpus = self.machine.count
        if gpus < GPUS_PER_POD:
            large = ", ".join(name for name, other in G2_MACHINES.items() if other.count >= GPUS_PER_POD)
            raise ValueError(
                f"{self.machine_type} has {gpus} GPU, and a serving replica needs {GPUS_PER_POD} on one "
                f"machine; choose one of {large}"
            )

    @rule("nodes")
    def _nodes_hold_the_fine_tune(self) -> None:
        needed = TRAINING_PODS * GPUS_PER_POD
        if self.gpus_of_queue < needed:
            raise ValueError(
                f"{self.nodes} x {self.machine_type} has {self.gpus_of_queue} GPUs, and the fine-tune needs "
                f"{needed}; set nodes to {-(-needed // self.machine.count)} or more"
            )

    @rule("minNodes", when_set=True)
    def _minimum_is_ours_to_choose(self) -> None:
        self._require_standard("minNodes")

    @rule("minNodes")
    def _minimum_fits_the_pool(self) -> None:
        if self.minimum > self.nodes:
            raise ValueError(
                f"{self.minimum} machines are kept and nodes allows {self.nodes}; raise nodes or lower "
                "minNodes"
            )
        if self.minimum and self._comes_by_need:
            raise ValueError(
                "machines of capacity.type flexStart, or of a list, start when pods request them; set "
                "minNodes to 0"
            )

    @rule("zones", when_set=True)
    def _zones_are_ours_to_choose(self) -> None:
        self._require_standard("zones")

    @rule("zones")
    def _zones_have_l4(self, project: Project) -> None:
        zones, offered = self.zones_in(project.region), L4.zones[project.region]
        if unknown := [zone for zone in zones if zone not in offered]:
            raise ValueError(
                f"not a zone of {project.region} with L4 GPUs: {', '.join(unknown)}; choose from "
                f"{', '.join(offered)}"
            )
        if self.minimum == self.nodes and self.nodes % len(zones):
            raise ValueError(
                f"{self.nodes} machines do not spread evenly over {len(zones)} zones; give one zone, or set "
                "minNodes below nodes and let the autoscaler spread them"
            )

    def _require_standard(self, key: str) -> None:
        if self.autopilot:
            raise ValueError(f"Autopilot chooses machines by itself; remove it with `pulumi config rm {key}`")


def l4_nodes(
    stack: StackContext, nodes: L4Nodes, platform: GkePlatform, run_hours: int | None
) -> list[pulumi.Resource]:
    """Declares what the nodes need to exist, and returns what a pod for them waits for."""
    several = nodes.chain
    if nodes.autopilot:
        return declare_classes(stack, platform, several.classes(nodes.machine)) if several.is_list else []
    return [
        NodePool(
            f"{stack.name}-l4-{class_name(capacity)}" if several.is_list else f"{stack.name}-l4",
            NodePoolArgs(
                cluster=platform.cluster,
                machine=nodes.machine,
                zones=nodes.zones_in(stack.region),
                minimum=nodes.minimum,
                maximum=nodes.nodes,
                disk_gb=nodes.disk_gb,
                capacity=capacity,
                node_labels={_CAPACITY_LABEL: class_name(capacity)} if several.is_list else None,
                run_hours=run_hours,
            ),
        ).ready
        for capacity in several.capacities
    ]
