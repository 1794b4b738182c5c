"""What a trainer is told about the price of its machines, so that its log has the dollars so far."""

from collections.abc import Iterable
from typing import Final

from cloud.machines import Machine
from cloud.prices import Part, hourly_price, parts_of_machine
from components.capacity.capacity_chain import CapacityChain
from components.cluster.capacity import CapacityType

# workloads/shared/price.py reads it.
_VARIABLE: Final = "RUN_DOLLARS_PER_HOUR"


def price_of_machines(
    chain: CapacityChain, machine: Machine, machines: float, *, autopilot: bool, disk_gb: int = 0
) -> dict[str, str]:
    """The environment variable with the price of a run's machines. For the arguments see `parts_of_machine`.

    Empty if there is no list price, and with a list of capacities: nobody knows beforehand which it will be.

    Args:
        machines: Number of machines, a fraction if others use the rest of one.
    """
    if chain.is_list:
        return {}
    (capacity,) = chain.capacities
    kind = CapacityType.FLEX_START if capacity.flex_start else capacity.type
    return price(parts_of_machine(machine, kind, autopilot=autopilot, disk_gb=disk_gb), machines)


def price(parts: Iterable[Part], number: float = 1) -> dict[str, str]:
    """The environment variable with the price of so many machines or containers of these parts.

    Empty if there is no list price. If a part has none, the price is `over` its number.
    """
    hourly = hourly_price(parts)
    if not hourly:
        return {}
    return {_VARIABLE: f"{'' if hourly.is_whole else 'over '}{number * hourly.dollars:.4f}"}
