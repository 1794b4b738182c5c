"""Google's public list prices, and the parts of which machines and containers are billed by the hour."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from cloud.machines import Machine

HOURS_PER_MONTH: Final = 730
# The capacity whose contract covers local SSDs.
_RESERVATION: Final = "reservation"


@dataclass(frozen=True, kw_only=True)
class ListPrice:
    """A price that Google publishes. The head of list_prices.yaml documents the fields."""

    dollars: float
    region: str
    day: date
    source: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a machine or of a container that is billed by the hour.

    Args:
        key: Its key in the lists of prices.
        amount: Units of it.
        is_accelerator: Whether it is the GPUs or TPU chips.
    """

    key: str
    what: str
    unit: str
    amount: float
    is_accelerator: bool = False


@cache
def list_prices() -> dict[str, ListPrice]:
    """The list prices by key."""
    rows = yaml.safe_load(Path(__file__).with_name("list_prices.yaml").read_text())
    return {key: ListPrice(**row) for key, row in rows.items()}


def parts_of_machine(
    machine: Machine, capacity: str, *, autopilot: bool = False, disk_gb: int = 0
) -> Iterator[Part]:
    """The parts of a machine.

    Args:
        capacity: Where it comes from, as the lists of prices spell it.
        autopilot: Whether Autopilot creates it.
        disk_gb: GB of its boot disk, 0 if Google chooses it.
    """
    name = f"{machine.name}, {capacity}"
    if machine.accelerator:
        unit, accelerator = "chip-hour" if machine.is_tpu else "GPU-hour", machine.accelerator
        keys = {f"{accelerator}.{capacity}": f"{accelerator} of {name}"}
        if autopilot:
            keys[f"autopilot.premium.{accelerator}"] = f"Autopilot's share of {name}"
        for key, what in keys.items():
            yield Part(key=key, what=what, unit=unit, amount=machine.count, is_accelerator=True)
    if not (machine.model and machine.model.whole_price):
        cpu, memory = (f"{machine.price_family}.{part}.{capacity}" for part in ("cpu", "memory"))
        yield Part(key=cpu, what=f"CPUs of {name}", unit="vCPU-hour", amount=machine.cpus)
        yield Part(key=memory, what=f"memory of {name}", unit="GiB-hour", amount=machine.memory_gib)
        if machine.local_ssds and capacity != _RESERVATION:
            amount = machine.local_ssd_gib / HOURS_PER_MONTH
            what = f"local SSDs of {machine.name}"
            yield Part(key="disk.local", what=what, unit="GiB-month", amount=amount)
    if disk_gb:
        disk = "disk.hyperdisk" if machine.disk_type.startswith("hyperdisk") else "disk.balanced"
        yield Part(key=disk, what="boot disks", unit="GiB-month", amount=disk_gb / HOURS_PER_MONTH)


def parts_of_container(
    kind: str, *, cpus: float, memory_gib: float, storage_gib: float = 0, gpus: int = 0
) -> Iterator[Part]:
    """The parts of an instance on Cloud Run, or of a pod that Autopilot bills without its machine.

    Args:
        kind: `job` or `service` of Cloud Run. Empty for a pod.
        gpus: GPUs of the instance.
    """
    where, title = (f"run.{kind}", f"Cloud Run {kind}") if kind else ("autopilot", "Autopilot pods")
    for part, key, unit, amount in (
        ("cpu", f"{where}.cpu", "vCPU-hour", cpus),
        ("memory", f"{where}.memory", "GiB-hour", memory_gib),
        ("storage", f"{where}.storage", "GiB-hour", storage_gib),
        ("GPU", "run.gpu.nvidia-l4", "GPU-hour", gpus if kind else 0),
    ):
        what = f"{title}: {part}"
        yield Part(key=key, what=what, unit=unit, amount=amount, is_accelerator=part == "GPU")


@dataclass(frozen=True, kw_only=True)
class HourlyPrice:
    """Dollars of an hour by list prices.

    Args:
        is_whole: Whether every part has a list price.
    """

    dollars: float
    is_whole: bool


def hourly_price(parts: Iterable[Part]) -> HourlyPrice | None:
    """The price of parts together. None without a price of the accelerators, which are nearly all of it."""
    used, known = [part for part in parts if part.amount], list_prices()
    priced = [part for part in used if part.key in known]
    if not any(part.is_accelerator for part in priced):
        return None
    dollars = sum(part.amount * known[part.key].dollars for part in priced)
    return HourlyPrice(dollars=dollars, is_whole=len(priced) == len(used))
