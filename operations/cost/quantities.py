"""The quantities that a stack uses in an hour, from its plan."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from cloud import records
from cloud.record import Billed
from cloud.services import cloudrun
from cloud.services.compute import NAT
from cloud.services.container import CLUSTER
from cloud.services.kubernetes import prepares
from components.cluster.capacity import CapacityType
from operations.cost.machines import Machines, Pods, cloud_run_of, machines_of, pods_of
from operations.plan import StackPlan

HOURS_PER_MONTH: Final = 730
_BY_TIME: Final = "hour"
# Cloud NAT bills a gateway for each machine behind it, up to this number.
# https://cloud.google.com/nat/pricing
_MOST_GATEWAYS: Final = 32


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity in an hour of something that is billed by time.

    Args:
        key: Its key in price files, prices.yaml and the records of cloud/.
        most: The amount when everything runs.
        run: The amount while it trains.
        kept: The amount when nobody uses the stack.
    """

    key: str
    what: str
    unit: str
    most: float
    run: float
    kept: float


def quantities(plan: StackPlan) -> list[Quantity]:
    """Everything that is billed by time, if the first capacity of a list has machines."""
    return _added_up(_all(plan))


def quantities_instead(plan: StackPlan) -> list[Quantity]:
    """What the other capacities of a list would cost in place of the first, one by one."""
    return _added_up(item for group in machines_of(plan) if group.order for item in _of_machines(group))


def quantities_by_capacity(plan: StackPlan) -> dict[str, list[Quantity]]:
    """Everything that is billed by time, for each capacity of a list by its name.

    A plan without a list has one entry.
    """
    orders = {group.order for group in machines_of(plan)} or {0}
    return {
        " and ".join(dict.fromkeys(str(group.capacity) for group in _tried(plan, order))): _added_up(
            _all(plan, order)
        )
        for order in sorted(orders)
    }


def _tried(plan: StackPlan, order: int) -> list[Machines]:
    """The machines of each resource if its first capacities have none. A short list stays at its last one."""
    groups = machines_of(plan)
    most = {group.resource: 0 for group in groups}
    for group in groups:
        most[group.resource] = max(most[group.resource], group.order)
    return [group for group in groups if group.order == min(order, most[group.resource])]


def _added_up(items: Iterable[Quantity]) -> list[Quantity]:
    totals: dict[tuple[str, str, str], Quantity] = {}
    for quantity in items:
        key = (quantity.key, quantity.what, quantity.unit)
        same = totals.get(key, replace(quantity, most=0, run=0, kept=0))
        totals[key] = replace(
            same, most=same.most + quantity.most, run=same.run + quantity.run, kept=same.kept + quantity.kept
        )
    return [quantity for quantity in totals.values() if quantity.most]


def by_use(plan: StackPlan) -> list[Billed]:
    """Items that are billed by use. No plan knows their amounts."""
    return list(dict.fromkeys(item for item in _billed(plan) if item.unit != _BY_TIME))


def _billed(plan: StackPlan) -> Iterator[Billed]:
    """The price items of the plan's resources themselves."""
    for resource in plan.resources:
        record = records.every().get(resource.type)
        if record:
            yield from (item for item in record.billed if item.when(resource.inputs))


def _all(plan: StackPlan, order: int = 0) -> Iterator[Quantity]:
    machines = _tried(plan, order)
    for group in machines:
        yield from _of_machines(group)
    billed = {group.resource for group in machines}
    autopilot = any(cluster.inputs.get("enableAutopilot") for cluster in plan.of_type(CLUSTER.type))
    # Minutes in a run, which cost cents.
    prepared = {resource.name for resource in plan.resources if prepares(resource.inputs)}
    for pods in (*(pods_of(plan) if autopilot else ()), *cloud_run_of(plan)):
        if pods.resource in prepared:
            continue
        if not (pods.resource in billed and pods.accelerators):
            yield from _of_pods(pods)
    for _ in plan.of_type(NAT.type):
        # Google bills a gateway for every machine that uses it.
        most = min(_MOST_GATEWAYS, sum(group.most for group in machines))
        kept = min(_MOST_GATEWAYS, sum(group.kept for group in machines))
        what = "Cloud NAT, by machine"
        yield Quantity(key="nat.gateway", what=what, unit=_BY_TIME, most=most, run=most, kept=kept)
    for item in _billed(plan):
        if item.unit == _BY_TIME:
            yield Quantity(key=item.key, what=item.what, unit=item.unit, most=1, run=1, kept=1)


def _of_each(of: Machines | Pods, key: str, what: str, unit: str, amount: float) -> Quantity:
    """An amount for all machines or pods. While it trains, an autoscaled pool has its full size."""
    most = of.most * amount
    return Quantity(key=key, what=what, unit=unit, most=most, run=most, kept=of.kept * amount)


def _of_machines(machines: Machines) -> Iterator[Quantity]:
    kind = machines.type
    if kind is None:
        return
    name = f"{kind.name}, {machines.capacity}"
    if kind.accelerator:
        unit = "chip-hour" if kind.is_tpu else "GPU-hour"
        key = f"{kind.accelerator}.{machines.capacity}"
        yield _of_each(machines, key, f"{kind.accelerator} of {name}", unit, kind.count)
        if machines.autopilot:
            key = f"autopilot.premium.{kind.accelerator}"
            yield _of_each(machines, key, f"Autopilot's share of {name}", unit, kind.count)
    if not (kind.model and kind.model.whole_price):
        cpu, memory = (f"{kind.price_family}.{part}.{machines.capacity}" for part in ("cpu", "memory"))
        yield _of_each(machines, cpu, f"CPUs of {name}", "vCPU-hour", kind.cpus)
        yield _of_each(machines, memory, f"memory of {name}", "GiB-hour", kind.memory_gib)
        # A reservation's contract covers them.
        if kind.local_ssds and machines.capacity is not CapacityType.RESERVATION:
            amount = kind.local_ssd_gib / HOURS_PER_MONTH
            yield _of_each(machines, "disk.local", f"local SSDs of {kind.name}", "GiB-month", amount)
    if machines.disk_gb:
        amount = machines.disk_gb / HOURS_PER_MONTH
        disk = "disk.hyperdisk" if kind.disk_type.startswith("hyperdisk") else "disk.balanced"
        yield _of_each(machines, disk, "boot disks", "GiB-month", amount)


def _of_pods(pods: Pods) -> Iterator[Quantity]:
    """Quantities that Autopilot bills for pods without accelerators, and Cloud Run for its instances."""
    name = {cloudrun.JOB.type: "job", cloudrun.SERVICE.type: "service"}.get(pods.type)
    where, title = (f"run.{name}", f"Cloud Run {name}") if name else ("autopilot", "Autopilot pods")
    for part, key, unit, amount in (
        ("cpu", f"{where}.cpu", "vCPU-hour", pods.cpus),
        ("memory", f"{where}.memory", "GiB-hour", pods.memory_gib),
        ("storage", f"{where}.storage", "GiB-hour", pods.storage_gib),
        ("GPU", "run.gpu.nvidia-l4", "GPU-hour", pods.accelerators if name else 0),
    ):
        quantity = _of_each(pods, key, f"{title}: {part}", unit, amount)
        yield replace(quantity, run=quantity.kept) if name == "service" else quantity
