"""How much of what a stack uses in an hour, from its plan."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from cloud import run
from cloud.compute import NAT
from cloud.container import CLUSTER
from cloud.storage import BUCKET
from operations.machines import Machines, machines_of
from operations.plan import StackPlan
from operations.workloads import Pods, cloud_run_of, pods_of

HOURS_PER_MONTH: Final = 730
# Cloud NAT bills a gateway for each machine behind it, up to this many.
# https://cloud.google.com/nat/pricing
_MOST_GATEWAYS: Final = 32


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Something that is billed by time.

    Args:
        key: What prices.yaml and a price file call it.
        what: What it is, for a person.
        unit: Such as `GPU-hour`.
        most: Amount in an hour in which everything runs.
        run: Amount in an hour of training.
        kept: Amount in an hour in which nobody does anything.
    """

    key: str
    what: str
    unit: str
    most: float
    run: float
    kept: float


@dataclass(frozen=True, kw_only=True)
class ByUse:
    """Something whose amount no plan knows.

    Args:
        key: As of `Quantity`.
        what: What it is, and what decides how much it is.
        unit: Such as `GiB-month`.
    """

    key: str
    what: str
    unit: str


def quantities(plan: StackPlan) -> list[Quantity]:
    """Everything that is billed by time; what is the same is added up."""
    totals: dict[tuple[str, str, str], Quantity] = {}
    for each in _all(plan):
        key = (each.key, each.what, each.unit)
        same = totals.get(key, replace(each, most=0, run=0, kept=0))
        totals[key] = replace(
            same, most=same.most + each.most, run=same.run + each.run, kept=same.kept + each.kept
        )
    return [each for each in totals.values() if each.most]


def by_use(plan: StackPlan) -> list[ByUse]:
    """What is billed by use and the plan has."""
    found = []
    if any(plan.of_type(NAT.type)):
        found.append(ByUse(key="nat.data", what="through Cloud NAT: model, data set, image", unit="GiB"))
    if any(plan.of_type(BUCKET.type)):
        found.append(ByUse(key="storage.standard", what="buckets: checkpoints, model", unit="GiB-month"))
    return found


def _all(plan: StackPlan) -> Iterator[Quantity]:
    modes = [
        "autopilot" if each.inputs.get("enableAutopilot") else "standard"
        for each in plan.of_type(CLUSTER.type)
    ]
    for mode in modes:
        yield _steady(f"cluster.{mode}", "GKE cluster")
    machines = machines_of(plan)
    for each in machines:
        yield from _of_machines(each)
    billed = {each.resource for each in machines}
    for pods in pods_of(plan) if "autopilot" in modes else ():
        if not (pods.resource in billed and pods.accelerators):
            yield from _of_general_pods(pods)
    for pods in cloud_run_of(plan):
        yield from _of_cloud_run(pods)
    for _ in plan.of_type(NAT.type):
        # A gateway is billed for every machine that uses it, its address always.
        most, kept = (
            min(_MOST_GATEWAYS, sum(found))
            for found in ([each.most for each in machines], [each.kept for each in machines])
        )
        gateway = _steady("nat.gateway", "Cloud NAT, by machine")
        yield replace(gateway, most=most, run=most, kept=kept)
        yield _steady("nat.address", "Cloud NAT's address")


def _steady(key: str, what: str) -> Quantity:
    return Quantity(key=key, what=what, unit="hour", most=1, run=1, kept=1)


def _of_each(of: Machines | Pods, key: str, what: str, unit: str, amount: float) -> Quantity:
    """An amount of each machine or pod; while it trains, a pool that may grow has grown."""
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
        if not machines.zones:
            key = f"autopilot.premium.{kind.accelerator}"
            yield _of_each(machines, key, f"Autopilot's share of {name}", unit, kind.count)
    if not (kind.model and kind.model.whole_price):
        cpu, memory = (f"{kind.family}.{part}.{machines.capacity}" for part in ("cpu", "memory"))
        yield _of_each(machines, cpu, f"CPUs of {name}", "vCPU-hour", kind.cpus)
        yield _of_each(machines, memory, f"memory of {name}", "GiB-hour", kind.memory_gib)
    if machines.disk_gb:
        amount = machines.disk_gb / HOURS_PER_MONTH
        yield _of_each(machines, "disk.balanced", "boot disks", "GiB-month", amount)


def _of_general_pods(pods: Pods) -> Iterator[Quantity]:
    """Pods without accelerators: Autopilot bills what they ask for."""
    for part, unit, amount in (
        ("cpu", "vCPU-hour", pods.cpus),
        ("memory", "GiB-hour", pods.memory_gib),
        ("storage", "GiB-hour", pods.storage_gib),
    ):
        yield _of_each(pods, f"autopilot.{part}", f"Autopilot pods: {part}", unit, amount)


def _of_cloud_run(pods: Pods) -> Iterator[Quantity]:
    name = "job" if pods.type == run.JOB.type else "service"
    for part, key, unit, amount in (
        ("cpu", f"run.{name}.cpu", "vCPU-hour", pods.cpus),
        ("memory", f"run.{name}.memory", "GiB-hour", pods.memory_gib),
        ("GPU", "run.gpu.nvidia-l4", "GPU-hour", pods.accelerators),
    ):
        found = _of_each(pods, key, f"Cloud Run {name}: {part}", unit, amount)
        yield found if name == "job" else replace(found, run=found.kept)
