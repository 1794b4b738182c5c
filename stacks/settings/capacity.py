"""Settings that say where the accelerator nodes come from."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, ValidationInfo, field_validator

from components.capacity.capacity_chain import MOST_MINUTES, CapacityChain, default_minutes
from components.cluster.capacity import Capacity, CapacityType, Reservation
from stacks.settings.reader import GoogleSettings, Hint, parsed_by

# The kinds of a scenario whose machines start one by one.
_ONE_BY_ONE: Final = [kind for kind in CapacityType if kind is not CapacityType.QUEUED_FLEX_START]
_KINDS: Final = ", ".join(_ONE_BY_ONE)
CapacityKinds = Annotated[
    tuple[CapacityType, ...],
    Field(alias="capacity.type", description="Where the accelerator nodes come from."),
    Hint(values=f"one of {_KINDS}"),
]
CapacityList = Annotated[
    tuple[CapacityType, ...],
    Field(
        alias="capacity.type",
        description="Where the accelerator nodes come from. From a list the first is tried first, and the "
        "next one if it has no machine, such as `[reservation, flexStart, spot]`. All nodes of a job come "
        "from the same one.",
    ),
    Hint(values=f"one of {_KINDS}, or a list of them"),
]
CapacityListOrQueue = Annotated[
    tuple[CapacityType, ...],
    Field(
        alias="capacity.type",
        description="Where the accelerator nodes come from. From a list the first is tried first, and the "
        "next one if it has no machine, such as `[reservation, flexStart, spot]`. All nodes of a job come "
        "from the same one. `queuedFlexStart` starts all nodes of the job together, or none, on a "
        "Standard cluster.",
    ),
    Hint(values=f"one of {_KINDS}, or a list of them, or {CapacityType.QUEUED_FLEX_START}"),
]


class CapacitySettings(GoogleSettings):
    """Settings of every scenario whose nodes have accelerators.

    Attributes:
        takes_a_list: Whether the scenario can go from one capacity to the next.
        takes_a_queue: Whether the machines of its job can start all together.
    """

    takes_a_list: ClassVar[bool] = False
    takes_a_queue: ClassVar[bool] = False

    capacity_types: CapacityKinds = (CapacityType.ON_DEMAND,)
    reservation: Annotated[
        Reservation | None,
        parsed_by(lambda text: None if text is None else Reservation.parse(text)),
        Hint(values="the name or the path of a reservation", fake="rehearsal-reservation"),
    ] = Field(
        None,
        alias="capacity.reservation",
        validate_default=True,
        description="Name of the reservation, or its path if another project shares it. Required with "
        "`capacity.type` `reservation`, and refused without it.",
    )

    @property
    def capacity(self) -> Capacity:
        """The capacity of the accelerator nodes, in a scenario that takes no list."""
        (only,) = self.chain.capacities
        return only

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the accelerator nodes."""
        return CapacityChain(capacities=_capacities(self.capacity_types, self.reservation))

    @field_validator("capacity_types")
    @classmethod
    def _is_a_list_of_different_ones(cls, types: tuple[CapacityType, ...]) -> tuple[CapacityType, ...]:
        if not types:
            raise ValueError(f"the list is empty; name one of {_KINDS}")
        if twice := [kind for kind in CapacityType if types.count(kind) > 1]:
            raise ValueError(f"{twice[0]} is there twice; name each kind once, the one to try first at first")
        queued = CapacityType.QUEUED_FLEX_START
        if queued in types and not cls.takes_a_queue:
            raise ValueError(
                f"{queued} starts the machines of one job of a4-accelerate together; here name one of "
                f"{_KINDS}"
            )
        if queued in types and len(types) > 1:
            raise ValueError(f"a job waits for {queued} as long as it takes; name {queued} alone")
        if len(types) > 1 and not cls.takes_a_list:
            raise ValueError(f"this scenario takes one kind; name one of {', '.join(types)}")
        return types

    @field_validator("reservation")
    @classmethod
    def _belongs_to_type(cls, reservation: Reservation | None, info: ValidationInfo) -> Reservation | None:
        if "capacity_types" in info.data:
            _capacities(info.data["capacity_types"], reservation)
        return reservation


class CapacityListSettings(CapacitySettings):
    """Settings of every scenario that can go from one capacity to the next."""

    takes_a_list = True

    capacity_types: CapacityList = (CapacityType.ON_DEMAND,)
    capacity_minutes: Annotated[
        tuple[int, ...], Hint(values="a whole number for each capacity in the list, such as [30, 240, 30]")
    ] = Field(
        default_factory=lambda data: tuple(map(default_minutes, data["capacity_types"])),
        alias="capacity.minutes",
        description="Minutes for which each capacity of a list is tried, in the same order. By default "
        f"{default_minutes(CapacityType.SPOT)}, and {default_minutes(CapacityType.FLEX_START)} for "
        "`flexStart`. A pod that needs no other node goes on at once if GKE has no machine: then only the "
        "minutes of `flexStart` count.",
    )

    @property
    def chain(self) -> CapacityChain:
        """The capacities of the accelerator nodes."""
        return CapacityChain(
            capacities=_capacities(self.capacity_types, self.reservation), minutes=self.capacity_minutes
        )

    @field_validator("capacity_minutes")
    @classmethod
    def _belong_to_the_list(cls, minutes: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        types = info.data.get("capacity_types")
        if types is None:
            return minutes
        if len(types) == 1:
            raise ValueError(f"after {types[0]} there is no other capacity to try; remove it")
        if len(minutes) != len(types):
            raise ValueError(
                f"there are {len(minutes)} numbers for {len(types)} capacities; give one for each of "
                f"{', '.join(types)}"
            )
        if wrong := [number for number in minutes if not 1 <= number <= MOST_MINUTES]:
            raise ValueError(f"{wrong[0]} is not a number from 1 to {MOST_MINUTES}, which is a day")
        return minutes


def _capacities(types: tuple[CapacityType, ...], reservation: Reservation | None) -> tuple[Capacity, ...]:
    """The capacities. The reservation belongs to the one of its type.

    Raises:
        ValueError: If types and reservation do not belong together.
    """
    reserved = CapacityType.RESERVATION in types
    if reservation and not reserved:
        Capacity(type=types[0], reservation=reservation)
    return tuple(
        Capacity(type=kind, reservation=reservation if kind is CapacityType.RESERVATION else None)
        for kind in types
    )


def kind_of(settings: Mapping[str, Any]) -> CapacityType | None:
    """The first capacity by the fields that are read so far. None if it is not valid."""
    types = settings.get("capacity_types")
    return types[0] if types else None
