"""Measurements of assumptions, by id. They create and change nothing.

A measurement that cannot see what it needs raises OperationError or an error of ODD_ANSWER.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from cloud import records
from cloud.inputs import at, texts
from cloud.machines import GPU_MACHINES, L4, MACHINES, V6E, Accelerator, Machine
from cloud.quantity import quantity
from cloud.services import cloudbuild, cloudrun, container, iam
from operations.checks.places import zones_with
from operations.checks.quotas import HYPERDISKS
from operations.cost.prices import catalog_prices, known
from operations.cost.quantities import by_use, quantities
from operations.errors import OperationError
from operations.google.clients import Clients
from operations.plan import StackPlan
from operations.state import Resource, State
from operations.status.cluster import Cluster, Object, from_google
from operations.status.pods import MACHINE, condition_of, holds

_GIB: Final = 2**30
# A duration is right if its order of magnitude is.
_TOLERANCE: Final = 2
# A node has at least this share of the memory of GKE's formula.
_MEMORY: Final = 0.96
_NODE_MINUTES: Final = 6


@dataclass(frozen=True, kw_only=True)
class LiveStack:
    """The stack as measurements see it. Methods raise OperationError if something does not exist or answer.

    Args:
        reached: The stack's cluster, if the address that GKE names does not work from here.
    """

    plan: StackPlan
    state: State
    clients: Clients
    reached: Cluster | None = None

    def resource(self, type_token: str) -> Resource:
        """The stack's resource of a type."""
        for resource in self.state.of_type(type_token):
            return resource
        raise OperationError(f"no {type_token.rpartition(':')[2]} of the stack is up")

    @cached_property
    def cluster(self) -> Cluster:
        """The API server of the stack's cluster."""
        name, method = self.resource(container.CLUSTER.type).id, "projects.locations.clusters.get"
        return self.reached or from_google(self.clients, self.clients.call("container.v1", method, name=name))

    def agents(self, app: str) -> list[Object]:
        """GKE's own pods with this label."""
        pods = self.cluster.every("/api/v1/namespaces/kube-system/pods")
        if not pods:
            raise OperationError("no pod of GKE's own is there")
        return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("k8s-app") == app]

    def pods(self) -> list[Object]:
        """The pods in the stack's namespaces."""
        namespaces = self.state.of_type("kubernetes:core/v1:Namespace")
        paths = [f"/api/v1/namespaces/{namespace.id}/pods" for namespace in namespaces]
        return [pod for path in paths for pod in self.cluster.every(path)]

    def machines(self, *, tpu: bool) -> list[tuple[Machine, Object]]:
        """The nodes with TPUs, or with GPUs, and their machine types."""
        nodes = self.cluster.every("/api/v1/nodes")
        machines = []
        for node in nodes:
            machine = MACHINES.get((node["metadata"].get("labels") or {}).get(MACHINE))
            if machine and machine.model and machine.is_tpu is tpu:
                machines.append((machine, node))
        if not machines:
            raise OperationError(f"no node with {'TPUs' if tpu else 'GPUs'} is up")
        return machines

    @cached_property
    def build(self) -> Mapping[str, Any]:
        """The build of the stack's image."""
        build = self.resource(cloudbuild.BUILD.type)
        name = f"projects/{self.plan.project}/locations/{build.outputs['location']}/builds/{build.id}"
        return self.clients.call("cloudbuild.v1", "projects.locations.builds.get", name=name)


class Result(NamedTuple):
    """A measurement in words, and whether the assumption holds."""

    holds: bool
    what: str


Measurement = Callable[[LiveStack], Result]


def _cilium(stack: LiveStack) -> Result:
    images = " ".join(
        text for pod in stack.agents("cilium") for text in texts(pod, "spec.containers[].image")
    )
    versions = [(int(major), int(minor)) for major, minor in re.findall(r"/cilium:v(\d+)\.(\d+)", images)]
    if not versions:
        raise OperationError("no image of anetd names a version")
    return Result(max(versions) < (1, 16), "anetd is Cilium {}.{}".format(*max(versions)))


def _konnectivity(stack: LiveStack) -> Result:
    agents = stack.agents("konnectivity-agent")
    on_host = sum(bool(pod["spec"].get("hostNetwork")) for pod in agents)
    return Result(bool(agents) and not on_host, f"{len(agents)} agents, {on_host} on their node's network")


def _api_services(stack: LiveStack) -> Result:
    listed = stack.cluster.every("/apis/apiregistration.k8s.io/v1/apiservices")
    missing = [service["metadata"]["name"] for service in listed if not holds(service, "Available")]
    if not any("visibility.kueue" in service["metadata"]["name"] for service in listed):
        raise OperationError("there is no APIService of Kueue's")
    return Result(not missing, f"not available: {_listed(missing)}")


def _kuberay(stack: LiveStack) -> Result:
    listed = stack.cluster.every("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    kinds = {definition["spec"]["names"]["kind"]: definition for definition in listed}
    ray = [item for item in stack.plan.resources if item.type.startswith("kubernetes:ray.io/")]
    used = [resource.inputs for resource in ray]
    if not used:
        raise OperationError("the stack has no Ray")
    unknown = set[str]()
    for tree in used:
        schemas = at(kinds[tree["kind"]], "spec.versions[].schema.openAPIV3Schema.properties.spec.properties")
        unknown |= {f"{tree['kind']}.{key}" for key in {*tree["spec"]}.difference(*schemas)}
    # https://docs.ray.io/en/master/kuberay/index.html
    version = "1.6 or newer" if "RayCronJob" in kinds else "older than 1.6"
    return Result(not unknown, f"{version} by its kinds, fields that it does not know: {_listed(unknown)}")


def _start_on_cloud_run(stack: LiveStack) -> Result:
    name, services = stack.resource(cloudrun.SERVICE.type).id, "projects.locations.services"
    newest = stack.clients.call("run.v2", f"{services}.get", name=name)["latestCreatedRevision"]
    revision = stack.clients.call("run.v2", f"{services}.revisions.get", name=newest)
    conditions = {condition["type"]: condition for condition in revision["conditions"]}
    healthy = conditions.get("ContainerHealthy") or conditions["Ready"]
    allowed = _allowed(revision["containers"][0]["startupProbe"])
    if healthy["state"] == "CONDITION_FAILED":
        return Result(False, f"{healthy.get('message')}; the probe allows {allowed} s")
    if healthy["state"] != "CONDITION_SUCCEEDED":
        raise OperationError("the newest revision has not started yet")
    seconds = _seconds(revision["createTime"], healthy["lastTransitionTime"])
    return Result(
        True, f"{seconds:.0f} s from the revision to /health, the image too; the probe allows {allowed} s"
    )


def _start_in_cluster(stack: LiveStack) -> Result:
    seen = []
    for pod in stack.pods():
        ready, restarts = condition_of(pod, "Ready"), sum(at(pod, "status.containerStatuses[].restartCount"))
        for probe in at(pod, "spec.containers[].startupProbe"):
            if ready.get("status") == "True" or restarts:
                seconds = _seconds(
                    condition_of(pod, "PodScheduled")["lastTransitionTime"], ready["lastTransitionTime"]
                )
                text = f"{seconds:.0f} s with the image, {restarts} restarts, {_allowed(probe)} s allowed"
                seen.append(Result(not restarts, text))
    return _together(seen)


def _node_minutes(stack: LiveStack) -> Result:
    nodes = stack.cluster.every("/api/v1/nodes")
    created = {node["metadata"]["name"]: node["metadata"]["creationTimestamp"] for node in nodes}
    waits = [
        _seconds(since, condition_of(pod, "PodScheduled")["lastTransitionTime"])
        for pod in stack.pods()
        if created.get(pod["spec"].get("nodeName"), "") > (since := pod["metadata"]["creationTimestamp"])
    ]
    return _together([_in_time(seconds, _NODE_MINUTES) for seconds in waits])


def _build_region(stack: LiveStack) -> Result:
    build = stack.build
    failure = " ".join(texts(build, "failureInfo.detail"))
    return Result(
        build["status"] == "SUCCESS", f"{build['status']} in {build['name'].split('/')[3]} {failure}"
    )


def _build_minutes(stack: LiveStack) -> Result:
    seconds = _seconds(stack.build["startTime"], stack.build["finishTime"])
    return _in_time(seconds, cloudbuild.BUILD.duration("create", {}))


def _allocatable(stack: LiveStack, *, tpu: bool) -> Result:
    seen = []
    for machine, node in stack.machines(tpu=tpu):
        free = node["status"]["allocatable"]
        cpus, gib = quantity(free["cpu"]) or 0.0, (quantity(free["memory"]) or 0.0) / _GIB
        least, memory = machine.stated or (machine.allocatable_cpus, machine.allocatable_gib * _MEMORY)
        text = f"{machine.name} {cpus:.2f} CPUs, {gib:.1f} GiB, of at least {least:.2f} and {memory:.1f}"
        # Kubernetes rounds CPUs to thousandths.
        seen.append(Result(cpus > least - 0.01 and gib > memory, text))
    return _together(seen)


def _zones(stack: LiveStack, *, model: Accelerator, collection: str, name: str) -> Result:
    ours = {zone for zones in model.zones.values() for zone in zones}
    theirs = zones_with(stack.clients, collection, stack.plan.project, name)
    if not theirs:
        raise OperationError("Google lists none")
    return Result(
        ours == theirs, f"{name} without it: {_listed(ours - theirs)}; new: {_listed(theirs - ours)}"
    )


def _gpu_zones(stack: LiveStack) -> Result:
    models = {machine.model.name: machine.model for machine in GPU_MACHINES.values() if machine.model}
    others = [model for model in models.values() if model.zones and model is not L4]
    return _together(
        [_zones(stack, model=model, collection="acceleratorTypes", name=model.name) for model in others]
    )


def _disk_quota(stack: LiveStack) -> Result:
    stack.machines(tpu=True)
    project, region = stack.plan.project, stack.plan.region
    listed = stack.clients.call("compute.v1", "regions.get", project=project, region=region)["quotas"]
    used = {quota["metric"]: quota.get("usage", 0.0) for quota in listed}.get(HYPERDISKS, 0.0)
    return Result(used > 0, f"{used:g} GB of {HYPERDISKS} in use")


def _skus(stack: LiveStack) -> Result:
    price_of = catalog_prices(stack.clients, stack.plan.region)
    wanted = [item for item in (*quantities(stack.plan), *by_use(stack.plan)) if known().get(item.key)]
    prices = {item.key: price_of(item.key, item.unit) for item in wanted}
    missing = [f"{key} ({price.source})" for key, price in prices.items() if price.dollars is None]
    return Result(not missing, f"{len(prices)} looked for, without a price: {_listed(missing)}")


def _permissions(stack: LiveStack) -> Result:
    wanted = {name for record in records.every().values() for name in record.permissions} | {*iam.ACT_AS}
    body: dict[str, Any] = {"pageSize": 1000}
    body["fullResourceName"] = f"//cloudresourcemanager.googleapis.com/projects/{stack.plan.project}"
    tokens: set[str | None] = set()
    while wanted and body.get("pageToken", "") is not None:
        page = stack.clients.call("iam.v1", "permissions.queryTestablePermissions", body=body)
        wanted -= {permission["name"] for permission in page["permissions"]}
        token = page.get("nextPageToken") or None
        if token in tokens:
            raise OperationError("the list of permissions does not end: IAM names a page again")
        tokens.add(token)
        body["pageToken"] = token
    return Result(not wanted, f"unknown: {_listed(wanted)}")


MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "cilium-end-port": _cilium,
    "konnectivity-host-network": _konnectivity,
    "kueue-visibility-api": _api_services,
    "kuberay-version": _kuberay,
    "start-on-cloud-run": _start_on_cloud_run,
    "start-in-cluster": _start_in_cluster,
    "minutes-node": _node_minutes,
    "build-region": _build_region,
    "minutes-build": _build_minutes,
    "gke-node-allocatable": partial(_allocatable, tpu=False),
    "tpu-node-size": partial(_allocatable, tpu=True),
    "l4-zones": partial(_zones, model=L4, collection="acceleratorTypes", name=L4.name),
    "gpu-zones": _gpu_zones,
    "v6e-zones": partial(_zones, model=V6E, collection="machineTypes", name="ct6e-standard-4t"),
    "v6e-disk-quota": _disk_quota,
    "sku-descriptions": _skus,
    "permission-names": _permissions,
}


def _together(seen: list[Result]) -> Result:
    """All measurements as one.

    Raises:
        OperationError: Without a measurement.
    """
    if not seen:
        raise OperationError("nothing of the stack that is up shows it")
    summaries = dict.fromkeys(measured.what for measured in sorted(seen))
    return Result(all(measured.holds for measured in seen), "; ".join(summaries))


def _in_time(seconds: float, minutes: float) -> Result:
    return Result(seconds <= minutes * 60 * _TOLERANCE, f"{seconds / 60:.1f} minutes, {minutes:g} assumed")


def _seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def _allowed(probe: Mapping[str, int]) -> int:
    """Seconds after which a startup probe fails. Kubernetes and Cloud Run have the same defaults."""
    tries = probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10)
    return probe.get("initialDelaySeconds", 0) + tries


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
