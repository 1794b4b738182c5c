"""Quotas: what the plan takes beside what the project may have and uses already."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloud import records
from cloud.compute import API as COMPUTE
from cloud.run import API as RUN
from components.capacity import CapacityType
from operations.clients import Clients
from operations.findings import Finding, fine, problem, unknown, warning
from operations.machines import Machines, machines_of
from operations.plan import StackPlan
from operations.workloads import cloud_run_of

# Granted by itself with the first deployment on a GPU in a region.
# https://docs.cloud.google.com/run/docs/configuring/services/gpu
_GRANTED_L4: Final = 3
_L4_ON_RUN: Final = "nvidia_l4_gpu_allocation_no_zonal_redundancy"
_GIB: Final = 2**30
# Rates, and limits for zones, which a region's need does not tell.
_OTHER_UNITS: Final = re.compile(r"^1/(min|d)|\{zone\}")


@dataclass(frozen=True, kw_only=True)
class Quota:
    """A quota.

    Args:
        service: API that it belongs to.
        metric: Its metric, without the API.
        family: The dimension that it has besides the region, such as `gpu_family`, and its value.
        everywhere: Whether it holds for all regions together.
    """

    service: str
    metric: str
    family: tuple[str, str] | None = None
    everywhere: bool = False

    def __str__(self) -> str:
        family = f" {self.family[1]}" if self.family else ""
        return f"{self.service}/{self.metric}{family}"


def needs_of(plan: StackPlan) -> Counter[Quota]:
    """How much of each quota the plan takes at most.

    A reservation has taken its quota already: https://docs.cloud.google.com/compute/docs/instances/reservations-overview
    """
    needs: Counter[Quota] = Counter()
    for machines in machines_of(plan):
        needs.update(_of_machines(machines))
    for pods in cloud_run_of(plan):
        needs[Quota(service=RUN, metric="cpu_allocation")] += round(pods.cpus * 1000) * pods.most
        needs[Quota(service=RUN, metric="mem_allocation")] += round(pods.memory_gib * _GIB) * pods.most
        if pods.accelerators:
            needs[Quota(service=RUN, metric=_L4_ON_RUN)] += pods.accelerators * pods.most
    for resource in plan.resources:
        record = records.every().get(resource.type)
        if record and record.quota:
            needs[Quota(service=COMPUTE, metric=record.quota, everywhere=True)] += 1
    return needs


def _of_machines(machines: Machines) -> Counter[Quota]:
    needs: Counter[Quota] = Counter()
    if machines.type is None or not machines.most:
        return needs
    accelerators = machines.type.count * machines.most
    accelerator = machines.type.model
    if machines.disk_gb:
        # Balanced disks count as SSDs.
        needs[Quota(service=COMPUTE, metric="ssd_total_storage")] += machines.disk_gb * machines.most
    if not accelerator:
        needs[Quota(service=COMPUTE, metric="cpus")] += machines.type.cpus * machines.most
    elif machines.capacity in (CapacityType.SPOT, CapacityType.FLEX_START):
        needs[Quota(service=COMPUTE, metric=accelerator.preemptible_quota)] += accelerators
    elif machines.capacity is CapacityType.ON_DEMAND:
        family = accelerator.quota_family
        needs[Quota(service=COMPUTE, metric=accelerator.quota, family=family)] += accelerators
        if family is None:
            needs[Quota(service=COMPUTE, metric="gpus_all_regions", everywhere=True)] += accelerators
    return needs


@dataclass(frozen=True, kw_only=True)
class State:
    """What a project has of a quota.

    Args:
        limit: How much it may use; None when there is no limit.
        usage: How much it uses; None when Google does not say so here.
    """

    limit: float | None
    usage: float | None


def check_quotas(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That every quota has room for the plan."""
    needs = needs_of(plan)
    listed = _listed(
        clients.call("compute.v1", "regions.get", project=plan.project, region=plan.region),
        clients.call("compute.v1", "projects.get", project=plan.project),
    )
    metrics = {
        service: clients.every(
            "serviceusage.v1beta1",
            "services.consumerQuotaMetrics.list",
            parent=f"projects/{plan.project}/services/{service}",
            view="BASIC",
        )
        for service in sorted({quota.service for quota in needs if quota.metric not in listed})
    }
    for quota, need in sorted(needs.items(), key=lambda item: str(item[0])):
        state = listed.get(quota.metric) or _bucket(metrics.get(quota.service, []), quota, plan.region)
        yield _judged(plan, quota, need, state)


# Compute Engine's own names of what Service Usage calls otherwise.
_RENAMED: Final = {"SSD_TOTAL_GB": "ssd_total_storage"}


def _listed(*answers: Mapping[str, Any]) -> dict[str, State]:
    """The quotas that Compute Engine lists itself, with what is in use, by Service Usage's names."""
    return {
        _RENAMED.get(quota["metric"], quota["metric"].lower()): State(
            limit=quota.get("limit", 0.0), usage=quota.get("usage", 0.0)
        )
        for answer in answers
        for quota in answer.get("quotas", ())
        if "metric" in quota
    }


def _bucket(metrics: list[dict[str, Any]], quota: Quota, region: str) -> State | None:
    """The limit for the region in what Service Usage lists: the least, where several hold."""
    limits = [
        limit
        for metric in metrics
        if metric.get("metric") == f"{quota.service}/{quota.metric}"
        for limit in metric.get("consumerQuotaLimits", ())
        if not _OTHER_UNITS.search(limit.get("unit", ""))
    ]
    wanted = {"region": region} | (dict([quota.family]) if quota.family else {})
    found = [most for limit in limits if (most := _most_special(limit, wanted)) is not None]
    if not found:
        return None
    held = [most for most in found if most >= 0]
    return State(limit=min(held) if held else None, usage=None)


def _most_special(limit: Mapping[str, Any], wanted: Mapping[str, str]) -> int | None:
    """The value of the bucket that names most of what is wanted and nothing else; negative for no limit."""
    buckets = [
        (len(bucket.get("dimensions", {})), int(bucket["effectiveLimit"]))
        for bucket in limit.get("quotaBuckets", ())
        if "effectiveLimit" in bucket and bucket.get("dimensions", {}).items() <= wanted.items()
    ]
    return max(buckets)[1] if buckets else None


def _judged(plan: StackPlan, quota: Quota, need: int, state: State | None) -> Finding:
    where = "all regions" if quota.everywhere else plan.region
    console = (
        f"https://console.cloud.google.com/iam-admin/quotas?project={plan.project} : "
        f"{quota} in {where}, {_amount(quota, need)} at least"
    )
    self_granted = quota.metric == _L4_ON_RUN and need <= _GRANTED_L4
    if state is None and self_granted:
        return warning(
            f"{quota}: no value for {where} yet; Google grants {_GRANTED_L4} with the first deployment there",
            f"if `pulumi up` is refused: {console}",
        )
    if state is None:
        return unknown(f"{quota}: Google lists no value for {where}; {_amount(quota, need)} needed", console)
    if state.limit is None:
        return fine(f"{quota}: no limit")
    used = state.usage or 0.0
    text = f"{quota} in {where}: {_amount(quota, need)} needed, limit {_amount(quota, state.limit)}" + (
        f", {_amount(quota, used)} in use" if state.usage is not None else ", use not listed"
    )
    if used + need <= state.limit:
        return fine(text)
    if self_granted and not state.limit:
        return warning(f"{text}; Google grants {_GRANTED_L4} with the first deployment there", console)
    return problem(text, f"ask for more: {console}")


def _amount(quota: Quota, amount: float) -> str:
    """An amount in the unit that a person thinks in."""
    if quota.metric == "mem_allocation":
        return f"{amount / _GIB:g} GiB"
    if quota.metric == "cpu_allocation":
        return f"{amount / 1000:g} vCPU"
    return f"{amount:g}{' GB' if quota.metric == 'ssd_total_storage' else ''}"
