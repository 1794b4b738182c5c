"""How much of what a stack uses in an hour, from its plan."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from operations.machines import CLUSTER, Machines, machines_of
from operations.plan import StackPlan
from operations.workloads import CLOUD_RUN_JOB, CLOUD_RUN_SERVICE, Pods, cloud_run_of, pods_of

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
        same = totals.get((each.key, each.what, each.unit))
        totals[each.key, each.what, each.unit] = _sum(same, each) if same else each
    return [each for each in totals.values() if each.most]


def by_use(plan: StackPlan) -> list[ByUse]:
    """What is billed by use and the plan has."""
    found = []
    if any(plan.of_type("gcp:compute/routerNat:RouterNat")):
        found.append(ByUse(key="nat.data", what="through Cloud NAT: model, data set, image", unit="GiB"))
    if any(plan.of_type("gcp:storage/bucket:Bucket")):
        found.append(ByUse(key="storage.standard", what="buckets: checkpoints, model", unit="GiB-month"))
    return found


def _sum(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(
        key=one.key,
        what=one.what,
        unit=one.unit,
        most=one.most + other.most,
        run=one.run + other.run,
        kept=one.kept + other.kept,
    )


def _all(plan: StackPlan) -> Iterator[Quantity]:
    for cluster in plan.of_type(CLUSTER):
        mode = "autopilot" if cluster.inputs.get("enableAutopilot") else "standard"
        yield _steady(f"cluster.{mode}", "GKE cluster", "hour", 1)
    machines = machines_of(plan)
    for each in machines:
        yield from _of_machines(each)
    if any(cluster.inputs.get("enableAutopilot") for cluster in plan.of_type(CLUSTER)):
        billed = {each.resource for each in machines}
        for pods in pods_of(plan):
            if not (pods.resource in billed and pods.accelerators):
                yield from _of_general_pods(pods)
    for pods in cloud_run_of(plan):
        yield from _of_cloud_run(plan, pods)
    for _ in plan.of_type("gcp:compute/routerNat:RouterNat"):
        yield from _of_nat(machines)


def _steady(key: str, what: str, unit: str, amount: float) -> Quantity:
    return Quantity(key=key, what=what, unit=unit, most=amount, run=amount, kept=amount)


def _of_machines(machines: Machines) -> Iterator[Quantity]:
    kind = machines.type
    if kind is None:
        return

    def quantity(key: str, what: str, unit: str, each: float) -> Quantity:
        # While it trains, a pool that may grow has grown.
        most, kept = machines.most * each, machines.kept * each
        return Quantity(key=key, what=what, unit=unit, most=most, run=most, kept=kept)

    name = f"{kind.name}, {machines.capacity}"
    if kind.accelerator:
        unit = "chip-hour" if kind.is_tpu else "GPU-hour"
        key = f"{kind.accelerator}.{machines.capacity}"
        yield quantity(key, f"{kind.accelerator} of {name}", unit, kind.count)
        if not machines.zones:
            key = f"autopilot.premium.{kind.accelerator}"
            yield quantity(key, f"Autopilot's share of {name}", unit, kind.count)
    if not (kind.model and kind.model.whole_price):
        cpu, memory = (f"{kind.family}.{part}.{machines.capacity}" for part in ("cpu", "memory"))
        yield quantity(cpu, f"CPUs of {name}", "vCPU-hour", kind.cpus)
        yield quantity(memory, f"memory of {name}", "GiB-hour", kind.memory_gib)
    if machines.disk_gb:
        amount = machines.disk_gb / HOURS_PER_MONTH
        yield quantity("disk.balanced", "boot disks", "GiB-month", amount)


def _of_general_pods(pods: Pods) -> Iterator[Quantity]:
    """Pods without accelerators: Autopilot bills what they ask for."""
    for key, unit, each in (
        ("autopilot.cpu", "vCPU-hour", pods.cpus),
        ("autopilot.memory", "GiB-hour", pods.memory_gib),
        ("autopilot.storage", "GiB-hour", pods.storage_gib),
    ):
        amount = pods.count * each
        kept = pods.kept * each
        what = f"Autopilot pods: {key.partition('.')[2]}"
        yield Quantity(key=key, what=what, unit=unit, most=amount, run=amount, kept=kept)


def _of_cloud_run(plan: StackPlan, pods: Pods) -> Iterator[Quantity]:
    (kind,) = {
        each.type for each in plan.of_type(CLOUD_RUN_JOB, CLOUD_RUN_SERVICE) if each.name == pods.resource
    }
    name = "job" if kind == CLOUD_RUN_JOB else "service"
    for key, unit, each in (
        (f"run.{name}.cpu", "vCPU-hour", pods.cpus),
        (f"run.{name}.memory", "GiB-hour", pods.memory_gib),
        ("run.gpu.nvidia-l4", "GPU-hour", pods.accelerators),
    ):
        most, kept = pods.count * each, pods.kept * each
        part = "GPU" if "gpu" in key else key.rpartition(".")[2]
        yield Quantity(
            key=key,
            what=f"Cloud Run {name}: {part}",
            unit=unit,
            most=most,
            run=most if name == "job" else kept,
            kept=kept,
        )


def _of_nat(machines: list[Machines]) -> Iterator[Quantity]:
    """A gateway is billed for every machine that uses it, its address always."""
    yield Quantity(
        key="nat.gateway",
        what="Cloud NAT, by machine",
        unit="hour",
        most=min(_MOST_GATEWAYS, sum(each.most for each in machines)),
        run=min(_MOST_GATEWAYS, sum(each.most for each in machines)),
        kept=min(_MOST_GATEWAYS, sum(each.kept for each in machines)),
    )
    yield _steady("nat.address", "Cloud NAT's address", "hour", 1)
