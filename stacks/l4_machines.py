"""The machines of l4-kueue: which, how many and where, and that its workloads fit them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cloud.machines import G2_MACHINES, L4, Machine
from components.capacity import CapacityType
from stacks.keys import Keys

# The workloads, as the tutorial runs them: a server spreads its model over two GPUs of one machine, and
# the fine-tune is two pods of that size.
GPUS_PER_POD: Final = 2
TRAINING_PODS: Final = 2

# The tutorial's; on Autopilot, what a pod with two L4 gets.
_DEFAULT: Final = G2_MACHINES["g2-standard-24"]


@dataclass(frozen=True, kw_only=True)
class L4Machines:
    """Machines with L4 GPUs.

    Args:
        type: `machineType`. Type of the machines, on a Standard cluster only.
        zones: `zones`. Zones of the nodes, one or a list, on a Standard cluster only; by default the
            region's first with L4.
        nodes: `nodes`. Machines that the queue may fill, and at most in the pool.
        min_nodes: `minNodes`. Machines that are kept, on a Standard cluster only; fewer than `nodes` lets the
            autoscaler decide. By default all, with flexStart none.
    """

    type: Machine
    zones: tuple[str, ...]
    nodes: int
    min_nodes: int


def read_l4_machines(keys: Keys, region: str, capacity: CapacityType, autopilot: bool) -> L4Machines:
    """Reads the machines' keys and notes what cannot be run.

    Args:
        keys: The configuration.
        region: Region of the cluster.
        capacity: Where the machines come from.
        autopilot: Whether the cluster chooses machines by itself.
    """
    offered = L4.zones.get(region, ())
    if not offered and not keys.refused("gcp:region"):
        keys.problem("gcp:region", f"{region} has no zone with L4 GPUs; these have: {', '.join(L4.zones)}")
    nodes = keys.integer("nodes", 3, minimum=1, maximum=100)
    if autopilot:
        keys.none_of("machineType", "zones", "minNodes", because="Autopilot chooses machines by itself")
        machines = L4Machines(type=_DEFAULT, zones=(), nodes=nodes, min_nodes=0)
    else:
        kept = 0 if capacity is CapacityType.FLEX_START else nodes
        machines = L4Machines(
            type=G2_MACHINES[keys.choice("machineType", G2_MACHINES, _DEFAULT.name) or _DEFAULT.name],
            zones=keys.parsed("zones", _zones, offered[:1], set_as="us-central1-a"),
            nodes=nodes,
            min_nodes=keys.integer("minNodes", kept, minimum=0, maximum=100),
        )
        _check_zones(keys, machines, region, offered)
        _check_pool(keys, machines, capacity)
    if not keys.refused("nodes", "machineType"):
        _check_fit(keys, machines)
    return machines


def _zones(text: str) -> tuple[str, ...]:
    """One zone, or a JSON list as `pulumi config set --path` stores it."""
    try:
        zones = json.loads(text) if text.startswith("[") else [text]
    except ValueError:
        zones = []
    if not zones or not all(isinstance(zone, str) for zone in zones):
        raise ValueError(f"{text!r} is neither a zone nor a list of zones")
    return tuple(dict.fromkeys(zones))


def _check_zones(keys: Keys, machines: L4Machines, region: str, offered: Sequence[str]) -> None:
    """Notes zones in which no machine would ever start."""
    if keys.refused("zones", "gcp:region"):
        return
    for zone in machines.zones:
        if zone not in offered:
            known = ", ".join(offered)
            keys.problem("zones", f"{zone} is no zone of {region} with L4 GPUs; these are: {known}")


def _check_pool(keys: Keys, machines: L4Machines, capacity: CapacityType) -> None:
    """Notes sizes that a node pool cannot have."""
    if keys.refused("nodes", "minNodes", "zones", "gcp:region", "capacity.type"):
        return
    if machines.min_nodes > machines.nodes:
        keys.problem(
            "minNodes",
            f"{machines.min_nodes} machines are kept and nodes allows {machines.nodes}; raise nodes or lower "
            "minNodes",
        )
    elif machines.min_nodes and capacity is CapacityType.FLEX_START:
        keys.problem(
            "minNodes", "capacity.type flexStart starts machines when pods ask for them; set minNodes to 0"
        )
    elif machines.min_nodes == machines.nodes and machines.nodes % len(machines.zones):
        keys.problem(
            "zones",
            f"{machines.nodes} machines do not spread evenly over {len(machines.zones)} zones; give one "
            "zone, or set minNodes below nodes and let the autoscaler spread them",
        )


def _check_fit(keys: Keys, machines: L4Machines) -> None:
    """Notes machines that cannot hold one server, and a queue that cannot hold the fine-tune."""
    machine, needed = machines.type, TRAINING_PODS * GPUS_PER_POD
    there = machines.nodes * machine.count
    if machine.count < GPUS_PER_POD:
        large = ", ".join(name for name, other in G2_MACHINES.items() if other.count >= GPUS_PER_POD)
        keys.problem(
            "machineType",
            f"{machine.name} has {machine.count} GPU, and one serving replica takes {GPUS_PER_POD} of a "
            f"machine; choose one of {large}",
        )
    elif there < needed:
        keys.problem(
            "nodes",
            f"{machines.nodes} x {machine.name} gives {there} GPUs, and the fine-tune takes {needed}; "
            f"set nodes to {-(-needed // machine.count)} or more",
        )
