"""Checks the whole plan of a new stack.

A fake provider sees one resource at a time. Before the cluster exists, the engine does not ask the Kubernetes
provider at all. So this module checks every Kubernetes object, and that the plan has every object that
another one names. A resource must declare that it waits for what it needs, even where the order may happen
to be right without that.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from cloud import records
from cloud.inputs import at, is_set, is_unknown, texts
from cloud.nodes import node_labels
from cloud.record import Problem
from cloud.services import serviceusage
from cloud.services.kubernetes import CLUSTER_SCOPED, chips_of
from engine.plan import Plan, Planned
from rehearsal import rules
from rehearsal.fakes.cloud import CLUSTER, NODE_POOL
from rehearsal.rules import kueue, pod_security, pods
from rehearsal.rules.kinds import ALWAYS_THERE, RELEASE, namespace_of, pod_templates

_PREFIX: Final = "kubernetes:"

# The names in a pod: their place, their key and the kind of the object. With a sibling `optional` the object
# may be missing.
_NAMED_BY_PODS: Final = (
    ("spec", "serviceAccountName", "ServiceAccount"),
    ("spec.volumes[].configMap", "name", "ConfigMap"),
    ("spec.volumes[].secret", "secretName", "Secret"),
    ("spec.containers[].env[].valueFrom.secretKeyRef", "name", "Secret"),
    ("spec.containers[].env[].valueFrom.configMapKeyRef", "name", "ConfigMap"),
    ("spec.containers[].envFrom[].secretRef", "name", "Secret"),
    ("spec.containers[].envFrom[].configMapRef", "name", "ConfigMap"),
)

# A reference of one object to another: the place, the kind, the name, and whether the other must exist first.
_Reference = tuple[str, str, str, bool]


def problems(plan: Plan) -> list[str]:
    """The problems of a stack's first plan, one a line."""
    check = _PlanCheck(plan)
    return [
        ": ".join(filter(None, (resource.name, *problem)))
        for resource in plan.resources
        for problem in check.problems(resource)
    ]


class _PlanCheck:
    """Checks the resources of a plan, which it finds by kind and by what they wait for."""

    def __init__(self, plan: Plan) -> None:
        self._resources = {resource.urn: resource for resource in plan.resources}
        self._waits: dict[str, frozenset[str]] = {}

    def problems(self, resource: Planned) -> Iterator[Problem]:
        """The problems of a resource."""
        if resource.type.startswith("gcp:"):
            yield from self._order_problems(resource)
        if resource.type == CLUSTER:
            yield from self._policy_problems(resource)
        if resource.type.startswith(_PREFIX):
            yield from self._object_problems(resource)

    def _object_problems(self, resource: Planned) -> Iterator[Problem]:
        yield from rules.problems(resource.type, resource.inputs)
        namespace = namespace_of(resource.inputs)
        for path, kind, name, first in dict.fromkeys(_references(resource.inputs)):
            place = "" if kind in CLUSTER_SCOPED else namespace
            named = self._objects.get((kind, place, name))
            if named is None and not self._may_exist(kind, place, name):
                where = f" in namespace {place}" if place else ""
                yield path, f"names {kind} {name}, which nothing in the plan makes{where}"
            elif named and first and named.urn not in self._awaited(resource.urn):
                yield path, f"is not made to wait for {kind} {name}: add depends_on"
        if home := self._objects.get(("Namespace", "", namespace)):
            yield from pod_security.problems(pod_security.level_of(home.inputs), resource.inputs)
        for path, template in pod_templates(resource.inputs):
            yield from self._node_problems(path, template)
        if str(resource.inputs.get("apiVersion")).startswith(kueue.GROUP):
            releases = {release.urn for release in self._of_type(RELEASE)}
            if not releases & self._awaited(resource.urn):
                yield "", "is not made to wait for the release that defines its kind: add depends_on"

    def _node_problems(self, path: str, template: Mapping[str, Any]) -> Iterator[Problem]:
        """Problems of a pod on a Standard cluster. Autopilot creates nodes for pods and has the driver."""
        clusters = [cluster.inputs for cluster in self._of_type(CLUSTER)]
        standard = [inputs for inputs in clusters if not is_set(inputs, "enableAutopilot")]
        if not standard:
            return
        wanted = pods.tpu_selector(template)
        pools = [node_labels(pool.inputs) for pool in self._of_type(NODE_POOL)]
        if chips_of(template) and wanted not in pools:
            shape = " ".join(wanted.values()) or "any"
            yield path, f"asks for chips of {shape} nodes, and no node pool in the plan has them"
        driver = "addonsConfig.gcsFuseCsiDriverConfig.enabled"
        if pods.mounts_buckets(template) and not any(is_set(cluster, driver) for cluster in standard):
            yield path, f"mounts a bucket, and the cluster's {driver} is not set"

    def _policy_problems(self, cluster: Planned) -> Iterator[Problem]:
        """A problem if the plan has NetworkPolicies and its cluster accepts them without enforcing them.

        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/network-policy
        """
        enforced = (
            is_set(cluster.inputs, "enableAutopilot")
            or "ADVANCED_DATAPATH" in texts(cluster.inputs, "datapathProvider")
            or is_set(cluster.inputs, "networkPolicy.enabled")
        )
        if not enforced and any(kind == "NetworkPolicy" for kind, _, _ in self._objects):
            yield "datapathProvider", "nothing enforces the plan's NetworkPolicies: set ADVANCED_DATAPATH"

    def _order_problems(self, resource: Planned) -> Iterator[Problem]:
        """Problems of a resource that does not wait for the APIs that it needs."""
        planned = self._of_type(serviceusage.SERVICE.type)
        services = {name: service for service in planned for name in texts(service.inputs, "service")}
        for needed in serviceusage.to_enable(records.of(resource.type), resource.inputs):
            service = services.get(needed)
            if service is None:
                yield "", f"nothing in the plan enables {needed}"
            elif service.urn not in self._awaited(resource.urn):
                yield "", f"is not made to wait for {needed}: add depends_on {service.name}"

    def _of_type(self, type_token: str) -> list[Planned]:
        return [resource for resource in self._resources.values() if resource.type == type_token]

    def _awaited(self, urn: str) -> frozenset[str]:
        """The URNs that a resource waits for, directly or through others. Parents do not count."""
        if urn not in self._waits:
            direct = self._resources[urn].dependencies if urn in self._resources else ()
            self._waits[urn] = frozenset(direct).union(*(self._awaited(other) for other in direct))
        return self._waits[urn]

    def _may_exist(self, kind: str, place: str, name: str) -> bool:
        """Whether an object exists without the plan, or may be one whose name is not known yet."""
        if name in ALWAYS_THERE or is_unknown(name) or is_unknown(place):
            return True
        alike = [key for key in self._objects if key[:2] == (kind, place)]
        return any(not planned_name or is_unknown(planned_name) for _, _, planned_name in alike)

    @cached_property
    def _objects(self) -> dict[tuple[str, str, str], Planned]:
        """The Kubernetes objects by kind, namespace and name. The namespace may be empty."""
        objects: dict[tuple[str, str, str], Planned] = {}
        for resource in self._resources.values():
            if resource.type.startswith(_PREFIX):
                kind = str(resource.inputs.get("kind"))
                name = next(texts(resource.inputs, "metadata.name"), "")
                place = "" if kind in CLUSTER_SCOPED else namespace_of(resource.inputs)
                objects[kind, place, name] = resource
        return objects


def _references(inputs: Mapping[str, Any]) -> Iterator[_Reference]:
    """The references of an object. Kueue never admits a workload that names a missing one, and is silent."""
    yield "metadata.namespace", "Namespace", namespace_of(inputs), True
    for kind, name in zip(("LocalQueue", "WorkloadPriorityClass"), kueue.queue_of(inputs), strict=True):
        if name:
            yield "metadata.labels", kind, name, True
    for name in texts(inputs, "spec.clusterQueue"):
        yield "spec.clusterQueue", "ClusterQueue", name, True
    for name in texts(inputs, "spec.resourceGroups[].flavors[].name"):
        yield "spec.resourceGroups", "ResourceFlavor", name, True
    for path, template in pod_templates(inputs):
        for place, key, kind in _NAMED_BY_PODS:
            for source in at(template, place):
                if not is_set(source, "optional"):
                    yield from ((path, kind, name, False) for name in texts(source, key))
