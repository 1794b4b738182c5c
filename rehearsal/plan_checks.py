"""What only a whole plan shows.

The fake provider sees one resource at a time, and before the cluster exists the engine does not ask the
Kubernetes provider at all. So the plan of a new stack is checked here: every Kubernetes object, that nothing
starts before what it needs, and that what objects name is there. An order that nobody declares may happen to
work; here it is a problem.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from cloud import records, serviceusage
from cloud.inputs import at, is_set, is_unknown, texts
from cloud.kubernetes import CLUSTER_SCOPED, chips_of
from cloud.nodes import node_labels
from cloud.record import Problem
from engine.plan import Plan, Planned
from rehearsal import rules
from rehearsal.fake_cloud import CLUSTER, NODE_POOL
from rehearsal.rules import kueue, pod_security, pods
from rehearsal.rules.kinds import ALWAYS_THERE, RELEASE, namespace_of, pod_templates

_PREFIX: Final = "kubernetes:"

# What a pod names: where, by which key, and the kind. A sibling `optional` excuses it.
_NAMED_BY_PODS: Final = (
    ("spec", "serviceAccountName", "ServiceAccount"),
    ("spec.volumes[].configMap", "name", "ConfigMap"),
    ("spec.volumes[].secret", "secretName", "Secret"),
    ("spec.containers[].env[].valueFrom.secretKeyRef", "name", "Secret"),
    ("spec.containers[].env[].valueFrom.configMapKeyRef", "name", "ConfigMap"),
    ("spec.containers[].envFrom[].secretRef", "name", "Secret"),
    ("spec.containers[].envFrom[].configMapRef", "name", "ConfigMap"),
)

# Where an object names another, of which kind and by which name, and whether that one must be there first.
_Reference = tuple[str, str, str, bool]


def problems(plan: Plan) -> list[str]:
    """Everything wrong with the first plan of a stack, a line each."""
    checked = _Checked(plan)
    return [
        ": ".join(filter(None, (resource.name, *problem)))
        for resource in plan.resources
        for problem in checked.problems(resource)
    ]


class _Checked:
    """A plan with its resources by kind and by what they wait for."""

    def __init__(self, plan: Plan) -> None:
        self._resources = {resource.urn: resource for resource in plan.resources}
        self._waits: dict[str, frozenset[str]] = {}

    def problems(self, resource: Planned) -> Iterator[Problem]:
        """What is wrong with a resource in view of the plan."""
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
            made = self._objects.get((kind, place, name))
            if made is None and not self._may_exist(kind, place, name):
                where = f" in namespace {place}" if place else ""
                yield path, f"names {kind} {name}, which nothing in the plan makes{where}"
            elif made and first and made.urn not in self._awaited(resource.urn):
                yield path, f"is not made to wait for {kind} {name}: add depends_on"
        if home := self._objects.get(("Namespace", "", namespace)):
            yield from pod_security.problems(pod_security.level_of(home.inputs), resource.inputs)
        for path, template in pod_templates(resource.inputs):
            yield from self._node_problems(path, template)
        if str(resource.inputs.get("apiVersion")).startswith(kueue.GROUP):
            releases = {each.urn for each in self._of_type(RELEASE)}
            if not releases & self._awaited(resource.urn):
                yield "", "is not made to wait for the release that defines its kind: add depends_on"

    def _node_problems(self, path: str, template: Mapping[str, Any]) -> Iterator[Problem]:
        """What a pod needs of a Standard cluster; Autopilot makes nodes for pods and has the driver."""
        clusters = (each.inputs for each in self._of_type(CLUSTER))
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
        """A Standard cluster takes NetworkPolicies without enforcing them.

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
        made = self._of_type(serviceusage.SERVICE.type)
        services = {name: other for other in made for name in texts(other.inputs, "service")}
        for needed in serviceusage.to_enable(records.of(resource.type), resource.inputs):
            service = services.get(needed)
            if service is None:
                yield "", f"nothing in the plan enables {needed}"
            elif service.urn not in self._awaited(resource.urn):
                yield "", f"is not made to wait for {needed}: add depends_on {service.name}"

    def _of_type(self, type_token: str) -> list[Planned]:
        return [resource for resource in self._resources.values() if resource.type == type_token]

    def _awaited(self, urn: str) -> frozenset[str]:
        """Every URN that a resource waits for, directly or through others; parents do not count."""
        if urn not in self._waits:
            direct = self._resources[urn].dependencies if urn in self._resources else ()
            self._waits[urn] = frozenset(direct).union(*(self._awaited(other) for other in direct))
        return self._waits[urn]

    def _may_exist(self, kind: str, place: str, name: str) -> bool:
        """Whether it is there without the plan, or a name that is not known yet may be the one."""
        if name in ALWAYS_THERE or is_unknown(name) or is_unknown(place):
            return True
        names = [found for other, space, found in self._objects if (other, space) == (kind, place)]
        return any(not found or is_unknown(found) for found in names)

    @cached_property
    def _objects(self) -> dict[tuple[str, str, str], Planned]:
        """Kubernetes objects by kind, namespace (none for what lives outside of all) and name."""
        found: dict[tuple[str, str, str], Planned] = {}
        for resource in self._resources.values():
            if resource.type.startswith(_PREFIX):
                kind = str(resource.inputs.get("kind"))
                name = next(texts(resource.inputs, "metadata.name"), "")
                place = "" if kind in CLUSTER_SCOPED else namespace_of(resource.inputs)
                found[kind, place, name] = resource
        return found


def _references(inputs: Mapping[str, Any]) -> Iterator[_Reference]:
    """All that an object names. Kueue never admits what names something missing, and tells nobody."""
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
            for found in at(template, place):
                for name in texts(found, key) if not is_set(found, "optional") else ():
                    yield path, kind, name, False
