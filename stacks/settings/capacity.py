"""The topics of where machines with accelerators come from: from one capacity, or from a list of them."""

from collections.abc import Callable
from typing import Annotated, Final

import pulumi
from pydantic import AfterValidator, Field

from cloud.machines import Machine
from components.capacity.capacity_chain import MOST_MINUTES, CapacityChain, default_minutes
from components.cluster.capacity import Capacity, CapacityType, Reservation
from stacks.settings.model import ConfigModel, Hint, parsed_by, rule

# The kinds of a scenario whose machines start one by one.
_ONE_BY_ONE: Final = [kind for kind in CapacityType if kind is not CapacityType.QUEUED_FLEX_START]
_KINDS: Final = ", ".join(_ONE_BY_ONE)
_QUEUED: Final = CapacityType.QUEUED_FLEX_START
_LIST: Final = (
    "Where the accelerator nodes come from. From a list the first is tried first, and the next one if it has "
    "no machine, such as `[reservation, flexStart, spot]`. All nodes of a job come from the same one."
)
Types = tuple[CapacityType, ...]


def _checked_types(*, takes_a_list: bool, takes_a_queue: bool) -> Callable[[Types], Types]:
    def check(types: Types) -> Types:
        if not types:
            raise ValueError(f"the list is empty; name one of {_KINDS}")
        if twice := [kind for kind in CapacityType if types.count(kind) > 1]:
            raise ValueError(f"{twice[0]} is there twice; name each kind once, the one to try first at first")
        if _QUEUED in types and not takes_a_queue:
            raise ValueError(
                f"{_QUEUED} starts the machines of one Job together, and this stack has no such Job; name "
                f"one of {_KINDS}"
            )
        if _QUEUED in types and len(types) > 1:
            raise ValueError(
                f"{_QUEUED} waits until all machines of the job are there, so a list never gets past it; "
                "name it alone"
            )
        if len(types) > 1 and not takes_a_list:
            raise ValueError(f"this scenario takes one kind; name one of {', '.join(types)}")
        return types

    return check


OneCapacityType = Annotated[
    Types,
    AfterValidator(_checked_types(takes_a_list=False, takes_a_queue=False)),
    Field(alias="capacity.type", description="Where the accelerator nodes come from."),
    Hint(values=f"one of {_KINDS}"),
]
CapacityTypes = Annotated[
    Types,
    AfterValidator(_checked_types(takes_a_list=True, takes_a_queue=False)),
    Field(alias="capacity.type", description=_LIST),
    Hint(values=f"one of {_KINDS}, or a list of them"),
]
CapacityTypesOrQueue = Annotated[
    Types,
    AfterValidator(_checked_types(takes_a_list=True, takes_a_queue=True)),
    Field(
        alias="capacity.type",
        description=f"{_LIST} `{_QUEUED}` starts all nodes of the job together, or none, on a Standard "
        "cluster.",
    ),
    Hint(values=f"one of {_KINDS}, or a list of them, or {_QUEUED}"),
]
ReservationPath = Annotated[
    Reservation | None,
    parsed_by(lambda text: None if text is None else Reservation.parse(text)),
    Field(
        alias="capacity.reservation",
        description="Name of the reservation, or its path if another project shares it. Required with "
        "`capacity.type` `reservation`, and refused without it.",
    ),
    Hint(values="the name or the path of a reservation", fake="rehearsal-reservation"),
]
CapacityMinutes = Annotated[
    tuple[int, ...],
    Field(
        alias="capacity.minutes",
        description="Minutes for which each capacity of a list is tried, in the same order. By default "
        f"{default_minutes(CapacityType.SPOT)}, and {default_minutes(CapacityType.FLEX_START)} for "
        "`flexStart`. A pod that needs no other node goes on at once if GKE has no machine: then only the "
        "minutes of `flexStart` count.",
    ),
    Hint(
        values="a whole number for each capacity in the list, such as [30, 240, 30]",
        default=f"{default_minutes(CapacityType.SPOT)}, and {default_minutes(CapacityType.FLEX_START)} for "
        "`flexStart`",
    ),
]


class OneCapacity(ConfigModel):
    """Capacity."""

    capacity_types: OneCapacityType = (CapacityType.ON_DEMAND,)
    reservation: ReservationPath = None

    @rule("capacity.reservation")
    def _reservation_belongs_to_the_type(self) -> None:
        capacities(self.capacity_types, self.reservation)

    @property
    def capacity(self) -> Capacity:
        """The capacity of the accelerator nodes."""
        (only,) = capacities(self.capacity_types, self.reservation)
        return only


class CapacityList(ConfigModel):
    """Capacity or a list of capacities."""

    capacity_types: CapacityTypes = (CapacityType.ON_DEMAND,)
    reservation: ReservationPath = None
    capacity_minutes: CapacityMinutes = ()

    @rule("capacity.reservation")
    def _reservation_belongs_to_the_type(self) -> None:
        capacities(self.capacity_types, self.reservation)

    @rule("capacity.minutes", when_set=True)
    def _minutes_belong_to_the_list(self) -> None:
        check_minutes(self.capacity_minutes, self.capacity_types)

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the accelerator nodes."""
        return chain(self.capacity_types, self.reservation, self.capacity_minutes)


def capacities(types: Types, reservation: Reservation | None) -> tuple[Capacity, ...]:
    """The capacities. The reservation belongs to the one of its type.

    Raises:
        ValueError: If types and reservation do not belong together.
    """
    if reservation and CapacityType.RESERVATION not in types:
        Capacity(type=types[0], reservation=reservation)
    return tuple(
        Capacity(type=kind, reservation=reservation if kind is CapacityType.RESERVATION else None)
        for kind in types
    )


def chain(types: Types, reservation: Reservation | None, minutes: tuple[int, ...]) -> CapacityChain:
    """The capacities in their order. A list without minutes has the default ones."""
    return CapacityChain(
        capacities=capacities(types, reservation), minutes=minutes or tuple(map(default_minutes, types))
    )


def warn_of_no_sale(types: Types, machine: Machine) -> None:
    """Warns about `onDemand` for a machine that Google does not sell so (assumption gpu-offers)."""
    if CapacityType.ON_DEMAND in types and not machine.on_demand:
        pulumi.log.warn(
            f"capacity.type onDemand: Google offers {machine.name} by reservation, flex-start and spot; "
            "the pods may stay pending"
        )


def check_minutes(minutes: tuple[int, ...], types: Types) -> None:
    """Checks the minutes of a list of capacities.

    Raises:
        ValueError: If they do not belong to the list.
    """
    if len(types) == 1:
        raise ValueError(f"after {types[0]} there is no other capacity to try; remove it")
    if len(minutes) != len(types):
        raise ValueError(
            f"there are {len(minutes)} numbers for {len(types)} capacities; give one for each of "
            f"{', '.join(types)}"
        )
    if wrong := [number for number in minutes if not 1 <= number <= MOST_MINUTES]:
        raise ValueError(f"{wrong[0]} is not a number from 1 to {MOST_MINUTES}, which is a day")
