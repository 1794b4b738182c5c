"""The nodes of l4-kueue: their machines, number and zones."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import pulumi
from pydantic import Field, ValidationInfo, field_validator

from cloud.machines import G2_MACHINES, L4, Machine
from components.capacity.capacity_chain import class_name
from components.capacity.compute_class import CLASS_LABEL
from components.cluster.capacity import CapacityType
from components.cluster.standard_cluster import NodePool, NodePoolArgs
from stacks.nodes.l4 import L4Settings, autopilot_selector, disk_gb
from stacks.nodes.placement import PlacedSettings, declare_classes
from stacks.platform import GkePlatform, Site
from stacks.settings.capacity import kind_of
from stacks.settings.reader import Hint
from stacks.settings.shared_settings import GkeSettings, RunSettings

# The workloads have the tutorial's sizes: a server spreads its model over two GPUs of one machine, and the
# fine-tune has two pods with two GPUs each.
GPUS_PER_POD: Final = 2
TRAINING_PODS: Final = 2


# Marks the nodes of a capacity, for Kueue.
_CAPACITY_LABEL: Final = "llm-stacks/capacity"

_MachineType = StrEnum("_MachineType", {name: name for name in G2_MACHINES})


class L4NodesSettings(L4Settings, PlacedSettings, GkeSettings, RunSettings):
    """Settings of the nodes of l4-kueue."""

    cluster_mode: Literal["standard", "autopilot"] = Field(
        "standard",
        description="Mode of the cluster: `standard` has nodes of your choice. With `autopilot` Google "
        "chooses the nodes pod by pod, and bills by the pod.",
    )
    # The tutorial's machine. On Autopilot a pod with two L4 gets the same.
    machine_type: _MachineType = Field(
        _MachineType("g2-standard-24"),
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
    min_nodes: int = Field(
        # Flex-start creates machines when pods request them.
        default_factory=lambda data: 0 if _comes_by_need(data) else data["nodes"],
        ge=0,
        le=100,
        description="Fewest machines, only on a Standard cluster. Below `nodes` the autoscaler chooses the "
        "number. By default all `nodes`, with `flexStart` or a list of capacities none.",
    )
    zones: Annotated[tuple[str, ...], Hint(values="a zone or a list of zones")] = Field(
        default_factory=lambda data: L4.zones[data["region"]][:1],
        min_length=1,
        description="Zones of the nodes, one or a list, only on a Standard cluster. By default the region's "
        "first zone with L4.",
    )

    @property
    def machine(self) -> Machine:
        """Machine of the nodes, in the catalogue."""
        return G2_MACHINES[self.machine_type]

    @property
    def autopilot(self) -> bool:
        """Whether the cluster is an Autopilot cluster."""
        return self.cluster_mode == "autopilot"

    @staticmethod
    def gpus_of_queue(settings: Mapping[str, Any]) -> int | None:
        """GPUs in the queue by the fields that are read so far. None if one of these is not valid."""
        machine, nodes = settings.get("machine_type"), settings.get("nodes")
        return nodes * G2_MACHINES[machine].count if machine and nodes else None

    @field_validator("machine_type", "min_nodes", "zones")
    @classmethod
    def _is_ours_to_choose(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("cluster_mode") == "autopilot":
            key = cls.model_fields[str(info.field_name)].alias
            raise ValueError(f"Autopilot chooses machines by itself; remove it with `pulumi config rm {key}`")
        return value

    @field_validator("machine_type")
    @classmethod
    def _holds_a_server(cls, machine: str) -> str:
        gpus = G2_MACHINES[machine].count
        if gpus < GPUS_PER_POD:
            large = ", ".join(name for name, other in G2_MACHINES.items() if other.count >= GPUS_PER_POD)
            raise ValueError(
                f"{machine} has {gpus} GPU, and a serving replica needs {GPUS_PER_POD} on one machine; "
                f"choose one of {large}"
            )
        return machine

    @field_validator("nodes")
    @classmethod
    def _hold_the_fine_tune(cls, nodes: int, info: ValidationInfo) -> int:
        machine, needed = info.data.get("machine_type"), TRAINING_PODS * GPUS_PER_POD
        gpus = G2_MACHINES[machine].count if machine else needed
        if nodes * gpus < needed:
            raise ValueError(
                f"{nodes} x {machine} has {nodes * gpus} GPUs, and the fine-tune needs {needed}; "
                f"set nodes to {-(-needed // gpus)} or more"
            )
        return nodes

    @field_validator("min_nodes")
    @classmethod
    def _fit_the_pool(cls, minimum: int, info: ValidationInfo) -> int:
        nodes = info.data.get("nodes", minimum)
        if minimum > nodes:
            raise ValueError(
                f"{minimum} machines are kept and nodes allows {nodes}; raise nodes or lower minNodes"
            )
        if minimum and _comes_by_need(info.data):
            raise ValueError(
                "machines of capacity.type flexStart, or of a list, start when pods request them; set "
                "minNodes to 0"
            )
        return minimum

    @field_validator("zones")
    @classmethod
    def _have_l4(cls, zones: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        zones = tuple(dict.fromkeys(zones))
        region, nodes = info.data.get("region"), info.data.get("nodes")
        offered = L4.zones.get(region, zones)
        unknown = [zone for zone in zones if zone not in offered]
        if unknown:
            raise ValueError(
                f"not a zone of {region} with L4 GPUs: {', '.join(unknown)}; choose from {', '.join(offered)}"
            )
        if nodes and info.data.get("min_nodes") == nodes and nodes % len(zones):
            raise ValueError(
                f"{nodes} machines do not spread evenly over {len(zones)} zones; give one zone, or set "
                "minNodes below nodes and let the autoscaler spread them"
            )
        return zones

    @property
    def flavors(self) -> dict[str, Mapping[str, str]]:
        """Labels of the nodes of each capacity, by the name of its flavor in Kueue."""
        if not self.chain.is_list:
            return {self.machine.accelerator: self.machine.node_labels}
        label = CLASS_LABEL if self.autopilot else _CAPACITY_LABEL
        return {name: {label: name} for name in self.chain.minutes_by_class()}

    @property
    def pod_selector(self) -> dict[str, str]:
        """Node selector of the pods. Kueue adds the labels of a flavor."""
        if self.autopilot and self.chain.is_list:
            return {}
        labels = dict(self.machine.node_labels)
        return labels | autopilot_selector(self.chain.capacities[0]) if self.autopilot else labels


def _comes_by_need(settings: Mapping[str, Any]) -> bool:
    """Whether there is no machine before a pod requests it, by the fields that are read so far."""
    types = settings.get("capacity_types") or ()
    return len(types) > 1 or kind_of(settings) is CapacityType.FLEX_START


def l4_nodes(site: Site, settings: L4NodesSettings, platform: GkePlatform) -> list[pulumi.Resource]:
    """Declares what the nodes need to exist, and returns what a pod for them waits for."""
    chain = settings.chain
    if settings.autopilot:
        return declare_classes(site, platform, chain.classes(settings.machine)) if chain.is_list else []
    return [
        NodePool(
            f"{site.name}-l4-{class_name(capacity)}" if chain.is_list else f"{site.name}-l4",
            NodePoolArgs(
                cluster=platform.cluster,
                machine=settings.machine,
                zones=settings.zones,
                minimum=settings.min_nodes,
                maximum=settings.nodes,
                disk_gb=disk_gb(settings.machine, GPUS_PER_POD),
                capacity=capacity,
                node_labels={_CAPACITY_LABEL: class_name(capacity)} if chain.is_list else None,
                run_hours=settings.max_run_hours,
            ),
        ).ready
        for capacity in chain.capacities
    ]
