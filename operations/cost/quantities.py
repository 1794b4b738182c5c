"""The quantities that a stack uses in an hour, from its plan."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from cloud import records
from cloud.prices import Part, parts_of_container, parts_of_machine
from cloud.record import Billed
from cloud.services import cloudrun
from cloud.services.compute import NAT
from cloud.services.container import CLUSTER
from cloud.services.kubernetes import prepares
from operations.cost.machines import Machines, Pods, cloud_run_of, machines_of, pods_of
from operations.plan import StackPlan

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


def _of_each(of: Machines | Pods, part: Part) -> Quantity:
    """A part of all machines or pods. While it trains, an autoscaled pool has its full size."""
    most = of.most * part.amount
    return Quantity(
        key=part.key, what=part.what, unit=part.unit, most=most, run=most, kept=of.kept * part.amount
    )


def _of_machines(machines: Machines) -> Iterator[Quantity]:
    if machines.type is None:
        return
    for part in parts_of_machine(
        machines.type, machines.capacity, autopilot=machines.autopilot, disk_gb=machines.disk_gb
    ):
        yield _of_each(machines, part)


def _of_pods(pods: Pods) -> Iterator[Quantity]:
    """Quantities that Autopilot bills for pods without accelerators, and Cloud Run for its instances."""
    kind = {cloudrun.JOB.type: "job", cloudrun.SERVICE.type: "service"}.get(pods.type, "")
    for part in parts_of_container(
        kind,
        cpus=pods.cpus,
        memory_gib=pods.memory_gib,
        storage_gib=pods.storage_gib,
        gpus=pods.accelerators,
    ):
        quantity = _of_each(pods, part)
        yield replace(quantity, run=quantity.kept) if kind == "service" else quantity
