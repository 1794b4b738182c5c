"""The nodes of l4-kueue: their machines, number and zones."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from cloud.machines import G2_MACHINES, L4, Machine
from components.capacity import CapacityType
from stacks.capacity import kind_of
from stacks.l4 import L4Settings
from stacks.reader import Hint
from stacks.shared_settings import GkeSettings

# The workloads have the tutorial's sizes: a server spreads its model over two GPUs of one machine, and the
# fine-tune has two pods with two GPUs each.
GPUS_PER_POD: Final = 2
TRAINING_PODS: Final = 2


_MachineType = StrEnum("_MachineType", {name: name for name in G2_MACHINES})


class L4NodesSettings(L4Settings, GkeSettings):
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
        description="Number of machines that the queue may fill. The node pool never has more.",
    )
    min_nodes: int = Field(
        # Flex-start creates machines when pods request them.
        default_factory=lambda data: 0 if kind_of(data) is CapacityType.FLEX_START else data["nodes"],
        ge=0,
        le=100,
        description="Fewest machines, only on a Standard cluster. Below `nodes` the autoscaler chooses the "
        "number. By default all `nodes`, with `flexStart` none.",
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
        nodes, capacity = info.data.get("nodes", minimum), kind_of(info.data)
        if minimum > nodes:
            raise ValueError(
                f"{minimum} machines are kept and nodes allows {nodes}; raise nodes or lower minNodes"
            )
        if minimum and capacity is CapacityType.FLEX_START:
            raise ValueError(
                "capacity.type flexStart starts machines when pods request them; set minNodes to 0"
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
