"""Checks quotas: the needs of the plan against their limits and their use."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, groupby
from operator import and_, or_
from typing import Any, Final

from cloud import records
from cloud.services.cloudbuild import API as CLOUD_BUILD
from cloud.services.cloudbuild import BUILD, CPU_QUOTA, OPEN_REGIONS
from cloud.services.cloudrun import API as RUN
from cloud.services.compute import API as COMPUTE
from components.cloud_build.build import MACHINE
from components.cluster.capacity import CapacityType
from operations.cost.machines import Machines, Pods, cloud_run_of, first_pools_of, machines_of
from operations.findings import Finding, Level, fine, problem, unknown, warning
from operations.google.clients import Clients
from operations.plan import StackPlan

# Google grants it with the first deployment on a GPU in a region.
# https://docs.cloud.google.com/run/docs/configuring/services/gpu
_GRANTED_L4: Final = 3
_L4_ON_RUN: Final = "nvidia_l4_gpu_allocation_no_zonal_redundancy"
# As Compute Engine's own list names it.
HYPERDISKS: Final = "HDB_TOTAL_GB"
_GIB: Final = 2**30
# Rates and limits of zones: the need of a region says nothing about them.
_OTHER_UNITS: Final = re.compile(r"^1/(min|d)|\{zone\}")
_NO_LIMIT: Final = math.inf


@dataclass(frozen=True, kw_only=True)
class Quota:
    """A quota.

    Args:
        service: API that it belongs to.
        metric: Its metric, without the name of the API.
        family: A dimension besides the region, such as `gpu_family`, and its value.
        everywhere: Whether it holds for all regions together.
        region: The region, if it is not the stack's.
    """

    service: str = COMPUTE
    metric: str
    family: tuple[str, str] | None = None
    everywhere: bool = False
    region: str = ""

    def __str__(self) -> str:
        family = f" {self.family[1]}" if self.family else ""
        return f"{self.service}/{self.metric}{family}"


def needs_of(plan: StackPlan) -> Counter[Quota]:
    """The most that the plan takes of each quota at one moment."""
    needs: Counter[Quota] = Counter()
    for alternatives in _alternatives(plan):
        # The pods run on one capacity of a list.
        needs.update(reduce(or_, alternatives))
    for build in plan.of_type(BUILD.type):
        if build.inputs.get("pool"):
            continue  # its machines count for the pool's own quota
        # The names of Cloud Build's machines have their CPUs, as in E2_HIGHCPU_8.
        cpus = int(MACHINE.rpartition("_")[2])
        origin, region = ("build_origin", "default"), str(build.inputs["location"])
        needs[Quota(service=CLOUD_BUILD, metric=CPU_QUOTA, family=origin, region=region)] += cpus
    for resource in plan.resources:
        record = records.every().get(resource.type)
        if record and record.quota:
            needs[Quota(metric=record.quota, everywhere=True)] += 1
    # The larger of two needs that do not exist at the same time. GKE deletes a cluster's first pool before
    # the others come. Cloud Run compares every service by itself. A job has ended when the service starts.
    for first in first_pools_of(plan):
        needs |= needs_of_machines(first)
    for pods in cloud_run_of(plan):
        needs |= _of_instances(pods)
    return needs


def _certain_needs(plan: StackPlan) -> Counter[Quota]:
    """What machines take of each quota whichever capacity of a list they come from."""
    needs: Counter[Quota] = Counter()
    for alternatives in _alternatives(plan):
        needs.update(reduce(and_, alternatives))
    return needs


def _alternatives(plan: StackPlan) -> Iterator[list[Counter[Quota]]]:
    """The needs of each resource with machines, one for each capacity of a list."""
    machines = sorted(machines_of(plan), key=lambda group: group.resource)
    for _, groups in groupby(machines, key=lambda group: group.resource):
        yield [needs_of_machines(group) for group in groups]


def _of_instances(pods: Pods) -> Counter[Quota]:
    needs = Counter(
        {
            Quota(service=RUN, metric="cpu_allocation"): round(pods.cpus * 1000) * pods.most,
            Quota(service=RUN, metric="mem_allocation"): round(pods.memory_gib * _GIB) * pods.most,
        }
    )
    if pods.accelerators:
        needs[Quota(service=RUN, metric=_L4_ON_RUN)] = pods.accelerators * pods.most
    return needs


def needs_of_machines(machines: Machines) -> Counter[Quota]:
    """The quotas that machines take. Machines of a reservation take only disks, because the reservation took
    the rest.

    https://docs.cloud.google.com/compute/docs/instances/reservations-overview
    """
    needs: Counter[Quota] = Counter()
    if machines.type is None or not machines.most:
        return needs
    accelerators = machines.type.count * machines.most
    accelerator = machines.type.model
    if machines.disk_gb:
        # Balanced disks count as SSDs, and hyperdisks have a quota of their own (assumption v6e-disk-quota).
        disks = HYPERDISKS.lower() if machines.type.disk_type.startswith("hyperdisk") else "ssd_total_storage"
        needs[Quota(metric=disks)] += machines.disk_gb * machines.most
    if machines.capacity is CapacityType.RESERVATION:
        return needs
    if machines.type.cpu_quota:
        cpus = machines.type.cpus * machines.most
        needs[Quota(metric=machines.type.cpu_quota)] += cpus
        needs[Quota(metric="cpus_all_regions", everywhere=True)] += cpus
    if accelerator and machines.capacity is CapacityType.ON_DEMAND:
        needs[Quota(metric=accelerator.quota, family=accelerator.quota_family)] += accelerators
        if not machines.type.is_tpu:
            # Also for GPUs with a family: assumption gpu-family-quota.
            needs[Quota(metric="gpus_all_regions", everywhere=True)] += accelerators
    elif accelerator:
        needs[Quota(metric=accelerator.preemptible_quota)] += accelerators
    return needs


def check_quotas(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that every quota has room for the plan."""
    of_lists = {quota for alternatives in _alternatives(plan) for needed in alternatives for quota in needed}
    listed_only = of_lists - _certain_needs(plan).keys()
    for quota, finding in room_for(plan, clients, needs_of(plan)):
        if finding.level is Level.PROBLEM and quota in listed_only:
            what = f"{finding.what}; another capacity of the list needs none"
            yield replace(finding, level=Level.WARNING, what=what)
        else:
            yield finding


def room_for(
    plan: StackPlan, clients: Clients, needs: Mapping[Quota, int]
) -> Iterator[tuple[Quota, Finding]]:
    """Whether each quota has room for its need, in the project and the region of a plan."""
    listed = _listed(
        clients.call("compute.v1", "regions.get", project=plan.project, region=plan.region),
        clients.call("compute.v1", "projects.get", project=plan.project),
    )
    metrics: dict[str, list[dict[str, Any]]] = {}
    for service in sorted({quota.service for quota in needs if quota.metric not in listed}):
        parent = f"projects/{plan.project}/services/{service}"
        method = "services.consumerQuotaMetrics.list"
        metrics[service] = clients.every("serviceusage.v1beta1", method, parent=parent, view="BASIC")
    for quota, need in sorted(needs.items(), key=lambda item: str(item[0])):
        limit: float | None
        usage: float | None
        if quota.metric in listed:
            limit, usage = listed[quota.metric]
        else:
            region = quota.region or plan.region
            limit, usage = _limit(metrics.get(quota.service, []), quota, region), None
        yield quota, _judged(plan, quota, need, limit, usage)


# Compute Engine's own names of metrics that Service Usage calls otherwise.
_RENAMED: Final = {"SSD_TOTAL_GB": "ssd_total_storage"}


def _listed(*answers: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Limit and usage of the quotas that Compute Engine lists, by Service Usage's names."""
    listed = {}
    for quota in chain.from_iterable(answer.get("quotas", ()) for answer in answers):
        if "metric" in quota:
            name = _RENAMED.get(quota["metric"], quota["metric"].lower())
            listed[name] = quota.get("limit", 0.0), quota.get("usage", 0.0)
    return listed


def _limit(metrics: list[dict[str, Any]], quota: Quota, region: str) -> float | None:
    """The smallest limit for the region that Service Usage lists, None if it lists none."""
    wanted = {"region": region} | (dict([quota.family]) if quota.family else {})
    allowed = []
    for metric in metrics:
        if metric.get("metric") != f"{quota.service}/{quota.metric}":
            continue
        for limit in metric.get("consumerQuotaLimits", ()):
            # The bucket with the most matching dimensions and no other dimension.
            buckets = [
                (len(bucket.get("dimensions", {})), int(bucket["effectiveLimit"]))
                for bucket in limit.get("quotaBuckets", ())
                if "effectiveLimit" in bucket and bucket.get("dimensions", {}).items() <= wanted.items()
            ]
            if buckets and not _OTHER_UNITS.search(limit.get("unit", "")):
                most = max(buckets)[1]
                allowed.append(most if most >= 0 else _NO_LIMIT)
    return min(allowed, default=None)


def _judged(plan: StackPlan, quota: Quota, need: int, limit: float | None, usage: float | None) -> Finding:
    where = "all regions" if quota.everywhere else quota.region or plan.region
    needed = _amount(quota, need)
    console = (
        f"https://console.cloud.google.com/iam-admin/quotas?project={plan.project} : "
        f"{quota} in {where}, {needed} at least"
    )
    elsewhere = f"pulumi config set buildRegion {OPEN_REGIONS[0]} --stack {plan.stack}"
    if limit is None and quota.metric == CPU_QUOTA and where not in OPEN_REGIONS:
        text = f"some projects may not build in {where}, only in {', '.join(OPEN_REGIONS)}"
        return warning(text, f"if the build is refused: {elsewhere}")
    if not limit and quota.metric == _L4_ON_RUN and need <= _GRANTED_L4:
        text = f"{quota}: none for {where} yet; Google grants {_GRANTED_L4} with the first deployment "
        text += "there, though not to every project, and an increase takes days"
        return warning(text, f"if `pulumi up` fails: {console}")
    if limit is None:
        return unknown(f"{quota}: Google lists no value for {where}; {needed} needed", console)
    if limit == _NO_LIMIT:
        return fine(f"{quota}: no limit")
    used = "use not listed" if usage is None else f"{_amount(quota, usage)} in use"
    text = f"{quota} in {where}: {needed} needed, limit {_amount(quota, limit)}, {used}"
    if (usage or 0.0) + need <= limit:
        return fine(text)
    return problem(text, elsewhere if quota.metric == CPU_QUOTA else f"ask for more: {console}")


def _amount(quota: Quota, amount: float) -> str:
    """An amount in the unit that a person uses."""
    if quota.metric == "mem_allocation":
        return f"{amount / _GIB:g} GiB"
    if quota.metric == "cpu_allocation":
        return f"{amount / 1000:g} vCPU"
    return f"{amount:g}{' GB' if quota.metric in ('ssd_total_storage', HYPERDISKS.lower()) else ''}"
