"""What a first plan as a whole reveals.

The fake provider sees one resource at a time, and before the cluster exists the engine does not ask the
Kubernetes provider at all. So the complete plan of a new stack is checked here: every Kubernetes
object, that nothing starts before what it needs, and that what pods name is there. An order that
nobody declares may happen to work; here it is a problem.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Final

from cloud import records, serviceusage
from cloud.inputs import at, given, is_unknown, texts
from cloud.kubernetes import chips_of
from cloud.nodes import node_labels
from engine.plan import Plan, Planned
from rehearsal import rules
from rehearsal.fake_cloud import CLUSTER, NODE_POOL
from rehearsal.rules import kueue, pod_security, pods
from rehearsal.rules.kinds import RELEASE, pod_templates

_PREFIX: Final = "kubernetes:"
_GIVEN_NAMESPACES: Final = ("default", "kube-system")

# What a pod may name: where, by which key, and the kind. A sibling `optional` excuses it.
_POD_NEEDS: Final = (
    ("spec.volumes[].configMap", "name", "ConfigMap"),
    ("spec.volumes[].secret", "secretName", "Secret"),
    ("spec.containers[].env[].valueFrom.secretKeyRef", "name", "Secret"),
    ("spec.containers[].env[].valueFrom.configMapKeyRef", "name", "ConfigMap"),
    ("spec.containers[].envFrom[].secretRef", "name", "Secret"),
    ("spec.containers[].envFrom[].configMapRef", "name", "ConfigMap"),
)


def problems(plan: Plan) -> list[str]:
    """Everything wrong with the first plan of a stack, a line each."""
    return list(_Checked(plan).problems())


class _Checked:
    """A plan with its resources by kind and by what they wait for."""

    def __init__(self, plan: Plan) -> None:
        self._resources = {resource.urn: resource for resource in plan.resources}
        self._waits: dict[str, frozenset[str]] = {}

    def problems(self) -> Iterator[str]:
        """See the function of that name."""
        for resource in self._resources.values():
            found: Iterator[tuple[str, str]]
            if resource.type == CLUSTER:
                found = chain(self._order_problems(resource), self._policy_problems(resource))
            elif resource.type.startswith(_PREFIX):
                found = self._object_problems(resource)
            else:
                found = self._order_problems(resource)
            for path, reason in found:
                yield f"{resource.name}: {path}: {reason}" if path else f"{resource.name}: {reason}"

    def _object_problems(self, resource: Planned) -> Iterator[tuple[str, str]]:
        yield from rules.problems(resource.type, resource.inputs)
        namespace = _namespace(resource.inputs)
        home = self._objects.get(("Namespace", "", namespace))
        if home and home.urn not in self._awaited(resource.urn):
            yield "metadata.namespace", f"is not made to wait for namespace {namespace}: add depends_on"
        elif not home and namespace not in _GIVEN_NAMESPACES and not is_unknown(namespace):
            yield "metadata.namespace", f"nothing in the plan makes namespace {namespace}"
        if home:
            yield from pod_security.problems(pod_security.level_of(home.inputs), resource.inputs)
        for path, template in pod_templates(resource.inputs):
            yield from self._pod_problems(path, namespace, template)
        yield from self._kueue_problems(resource, namespace)

    def _pod_problems(
        self, path: str, namespace: str, template: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        needs = [("ServiceAccount", name) for name in texts(template, "spec.serviceAccountName")]
        for place, key, kind in _POD_NEEDS:
            wanted = (found for found in at(template, place) if not given(found, "optional"))
            needs += [(kind, name) for found in wanted for name in texts(found, key)]
        for kind, name in dict.fromkeys(needs):
            if name != "default" and not self._may_exist(kind, namespace, name):
                yield path, f"names {kind} {name}, which nothing in the plan makes in namespace {namespace}"

        yield from self._node_problems(path, template)

    def _node_problems(self, path: str, template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """What a pod needs of a Standard cluster; Autopilot makes nodes for pods and has the driver."""
        standard = [
            each.inputs
            for each in self._resources.values()
            if each.type == CLUSTER and not given(each.inputs, "enableAutopilot")
        ]
        if not standard:
            return
        wanted = pods.tpu_selector(template)
        pools = (each.inputs for each in self._resources.values() if each.type == NODE_POOL)
        if chips_of(template) and wanted not in [node_labels(pool) for pool in pools]:
            shape = " ".join(wanted.values()) or "any"
            yield path, f"asks for chips of {shape} nodes, and no node pool in the plan has them"
        driver = "addonsConfig.gcsFuseCsiDriverConfig.enabled"
        if pods.mounts_buckets(template) and not any(given(cluster, driver) for cluster in standard):
            yield path, f"mounts a bucket, and the cluster's {driver} is not set"

    def _policy_problems(self, cluster: Planned) -> Iterator[tuple[str, str]]:
        """A Standard cluster takes NetworkPolicies without enforcing them.

        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/network-policy
        """
        enforced = (
            given(cluster.inputs, "enableAutopilot")
            or "ADVANCED_DATAPATH" in texts(cluster.inputs, "datapathProvider")
            or given(cluster.inputs, "networkPolicy.enabled")
        )
        if not enforced and any(kind == "NetworkPolicy" for kind, _, _ in self._objects):
            yield "datapathProvider", "nothing enforces the plan's NetworkPolicies: set ADVANCED_DATAPATH"

    def _kueue_problems(self, resource: Planned, namespace: str) -> Iterator[tuple[str, str]]:
        """What Kueue takes and then never admits, without a word to whoever asked."""
        queue, priority = kueue.queue_of(resource.inputs)
        needs = [("metadata.labels", "LocalQueue", namespace, queue)]
        needs += [("metadata.labels", "WorkloadPriorityClass", "default", priority)]
        needs += [
            ("spec.clusterQueue", "ClusterQueue", "default", name)
            for name in texts(resource.inputs, "spec.clusterQueue")
        ]
        needs += [
            ("spec.resourceGroups", "ResourceFlavor", "default", name)
            for name in texts(resource.inputs, "spec.resourceGroups[].flavors[].name")
        ]
        for path, kind, space, name in needs:
            made = self._objects.get((kind, space, name or ""))
            if name and made is None:
                yield path, f"names {kind} {name}, which nothing in the plan makes"
            elif made and made.urn not in self._awaited(resource.urn):
                yield path, f"is not made to wait for {kind} {name}: add depends_on"
        if str(resource.inputs.get("apiVersion")).startswith(kueue.GROUP):
            releases = {each.urn for each in self._resources.values() if each.type == RELEASE}
            if not releases & self._awaited(resource.urn):
                yield "", "is not made to wait for the release that defines its kind: add depends_on"

    def _order_problems(self, resource: Planned) -> Iterator[tuple[str, str]]:
        if not resource.type.startswith("gcp:"):
            return
        services = {
            other.inputs.get("service"): other
            for other in self._resources.values()
            if other.type == serviceusage.SERVICE.type
        }
        for needed in serviceusage.to_enable(records.of(resource.type), resource.inputs):
            service = services.get(needed)
            if service is None:
                yield "", f"nothing in the plan enables {needed}"
            elif service.urn not in self._awaited(resource.urn):
                yield "", f"is not made to wait for {needed}: add depends_on {service.name}"

    def _awaited(self, urn: str) -> frozenset[str]:
        """Every URN that a resource waits for, directly or through others; parents do not count."""
        if urn not in self._waits:
            direct = self._resources[urn].dependencies if urn in self._resources else ()
            self._waits[urn] = frozenset(direct).union(*(self._awaited(other) for other in direct))
        return self._waits[urn]

    def _may_exist(self, kind: str, namespace: str, name: str) -> bool:
        if is_unknown(namespace) or (kind, namespace, name) in self._objects:
            return True
        names = [found for other, space, found in self._objects if (other, space) == (kind, namespace)]
        return any(not found or is_unknown(found) for found in names)

    @cached_property
    def _objects(self) -> dict[tuple[str, str, str], Planned]:
        """Kubernetes objects by kind, namespace and name; no namespace for a Namespace."""
        found: dict[tuple[str, str, str], Planned] = {}
        for resource in self._resources.values():
            if resource.type.startswith(_PREFIX):
                kind = str(resource.inputs.get("kind"))
                name = str((resource.inputs.get("metadata") or {}).get("name", ""))
                found[kind, "" if kind == "Namespace" else _namespace(resource.inputs), name] = resource
        return found


def _namespace(inputs: Mapping[str, Any]) -> str:
    metadata = inputs.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return str(named or inputs.get("namespace") or "default")
