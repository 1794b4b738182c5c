"""The machines that the platform has, by the kind of capacity."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

# As the setting `capacity.type` spells them.
RESERVATION: Final = "reservation"
FLEX_START: Final = "flexStart"
SPOT: Final = "spot"
ON_DEMAND: Final = "onDemand"
QUEUED_FLEX_START: Final = "queuedFlexStart"
# Those that a list can have.
CAPACITIES: Final = (RESERVATION, FLEX_START, SPOT, ON_DEMAND)
# The label that a node with a capacity has, and its value. None stands for any.
_LABELS: Final = {
    "autoscaling.gke.io/provisioning-request": (None, QUEUED_FLEX_START),
    "cloud.google.com/reservation-name": (None, RESERVATION),
    "cloud.google.com/gke-flex-start": ("true", FLEX_START),
    "cloud.google.com/gke-spot": ("true", SPOT),
}


class Stock:
    """Machines with accelerators that are free, by the kind of capacity. At first there is no limit.

    Args:
        empty: Capacities that have none.
    """

    def __init__(self, empty: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._free: dict[str, int] = dict.fromkeys(empty, 0)

    def set(self, capacity: str, free: int | None) -> None:
        """Says how many are free from now on. None means no limit."""
        with self._lock:
            if free is None:
                self._free.pop(capacity, None)
            else:
                self._free[capacity] = free

    def take(self, capacity: str, count: int = 1) -> bool:
        """Takes some, all of them or none, and returns whether there were as many."""
        with self._lock:
            if self._free.get(capacity, count) < count:
                return False
            if capacity in self._free:
                self._free[capacity] -= count
            return True

    def give_back(self, capacity: str) -> None:
        """Gives one back."""
        with self._lock:
            if capacity in self._free:
                self._free[capacity] += 1


def capacity_of(labels: Mapping[str, Any]) -> str:
    """The kind of capacity of a node with these labels."""
    for label, (value, capacity) in _LABELS.items():
        if label in labels and value in (None, labels[label]):
            return capacity
    return ON_DEMAND
