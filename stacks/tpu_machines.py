"""The TPU slice of tpu-maxtext: its shape and its zone."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from cloud.machines import TPU_SLICES, V6E, Slice
from components.capacity import CapacityType
from stacks.keys import Keys
from workloads.maxtext.maxtext_driver.recipe import load_recipe

# The tutorial's.
_DEFAULT: Final = "4x4"


@dataclass(frozen=True, kw_only=True)
class TpuMachines:
    """A slice and where it is.

    Args:
        slice: `topology`. The shape of the slice, which says how many machines of which type it has.
        zone: `zone`. The zone of the slice, and of the cluster with it.
    """

    slice: Slice
    zone: str


def read_tpu_machines(keys: Keys, region: str, capacity: CapacityType) -> TpuMachines:
    """Reads the slice's keys and notes what cannot be had.

    Args:
        keys: The configuration.
        region: Region of everything.
        capacity: Where the machines come from.
    """
    shape = keys.parsed("topology", _slice, TPU_SLICES[_DEFAULT], set_as=_DEFAULT)
    zone = keys.text(
        "zone",
        r"[a-z]+(-[a-z]+)+\d+-[a-z0-9]+",
        "a zone such as us-east5-b (not a region)",
        default="",
        set_as="us-east5-b",
    )
    if keys.refused("gcp:region", "zone", "capacity.type"):
        return TpuMachines(slice=shape, zone="")
    if zone:
        _check_zone(keys, zone, region, capacity)
        return TpuMachines(slice=shape, zone=zone)
    zones = _zones(capacity)
    if region not in zones:
        keys.problem("gcp:region", f"{region} {_no_offer(capacity)}; {_elsewhere(capacity)}")
        return TpuMachines(slice=shape, zone="")
    return TpuMachines(slice=shape, zone=zones[region][0])


def check_fit(keys: Keys, recipe: str, machines: TpuMachines) -> None:
    """Notes a recipe that divides the model over another number of chips than the slice has.

    In MaxText the sizes of all directions give the number of chips, and -1 stands for what is left;
    `ici_fsdp_parallelism` is -1 unless a recipe says otherwise.
    """
    settings = {"ici_fsdp_parallelism": -1, **load_recipe(recipe).maxtext}
    sizes = [size for name, size in settings.items() if name.startswith("ici_") and isinstance(size, int)]
    fixed, chips = prod(size for size in sizes if size > 0), machines.slice.chips
    if chips % fixed or (chips != fixed and -1 not in sizes):
        shapes = [shape.topology for shape in TPU_SLICES.values() if shape.chips == fixed]
        keys.problem(
            "topology",
            f"a {machines.slice.topology} slice has {chips} chips, and the recipe {recipe} divides the model "
            f"over {fixed}; {'set topology to ' + shapes[0] + ' or ' if shapes else ''}choose another recipe",
        )


def _slice(text: str) -> Slice:
    if text not in TPU_SLICES:
        raise ValueError(f"{text!r} is no shape of a TPU v6e slice; these are: {', '.join(TPU_SLICES)}")
    return TPU_SLICES[text]


def _check_zone(keys: Keys, zone: str, region: str, capacity: CapacityType) -> None:
    """Notes a zone in which no slice would ever start; who has a reservation knows where it is."""
    if zone.rpartition("-")[0] != region:
        keys.problem("zone", f"{zone} is no zone of {region}, the stack's gcp:region")
    elif capacity is not CapacityType.RESERVATION and zone not in _zones(capacity).get(region, ()):
        keys.problem("zone", f"{zone} {_no_offer(capacity)}; {_elsewhere(capacity)}")


def _zones(capacity: CapacityType) -> Mapping[str, tuple[str, ...]]:
    return V6E.flex_start_zones if capacity is CapacityType.FLEX_START else V6E.zones


def _no_offer(capacity: CapacityType) -> str:
    return "has no TPU v6e with flex-start" if capacity is CapacityType.FLEX_START else "has no TPU v6e"


def _elsewhere(capacity: CapacityType) -> str:
    zones = ", ".join(zone for zones in _zones(capacity).values() for zone in zones)
    if capacity is CapacityType.RESERVATION:
        return f"set the zone of the reservation with `pulumi config set zone ZONE`; v6e is in {zones}"
    return f"it is in {zones}"
