"""Finds changes of the NetworkPolicies in a stack's namespaces that `pulumi refresh` does not see.

Pulumi's Kubernetes provider reads only as many entries of a live list as the program states. So `refresh`
and `up --refresh` do not see a rule that somebody appended, such as a rule that lets everybody in. They do
not see a policy that somebody else created either. Policies add up: such a policy can only let more in.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cloud.services.container import CLUSTER
from operations.errors import ODD_ANSWER, CallError
from operations.google.clients import Clients
from operations.previews.changes import Change, Kind, Property
from operations.state import Resource, State
from operations.status.cluster import Cluster, from_google

POLICY: Final = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
_PATH: Final = "/apis/networking.k8s.io/v1/namespaces"
_REMEDIES: Final = {
    Kind.UPDATE: (
        "{name}: `pulumi up --refresh` does not undo what was added; first delete the policy with kubectl"
    ),
    Kind.CREATE: (
        "{name}: the program has no such NetworkPolicy, and another policy can only let more traffic in; "
        "delete it with `kubectl --namespace {namespace} delete networkpolicy {policy}`, or add it to the "
        "manifests"
    ),
}


def remedy(change: Change) -> str:
    """What to do about a change that `added` returned."""
    namespace, _, policy = change.name.rpartition("/")
    return _REMEDIES[change.kind].format(name=change.name, namespace=namespace, policy=policy)


def added(state: State, clients: Clients) -> list[Change]:
    """The policies whose live spec differs from the program's, and those that the program does not have.

    Args:
        state: The stack's.
        clients: Asks GKE where the cluster is.

    Raises:
        OperationError: When the cluster or its policies cannot be read.
    """
    policies = [*state.of_type(POLICY)]
    if not policies:
        return []
    changes: list[Change] = []
    for cluster in state.of_type(CLUSTER.type):
        described = clients.call("container.v1", "projects.locations.clusters.get", name=cluster.id)
        changes += compare(policies, from_google(clients, described))
    return changes


def compare(policies: Sequence[Resource], cluster: Cluster) -> list[Change]:
    """Compares the namespaces that have these policies with the cluster.

    Returns:
        An update for a policy that differs, and a creation, named `NAMESPACE/NAME`, for a policy that is not
        among these. A policy that is gone is missing here, because `pulumi refresh` reports it.

    Raises:
        CallError: When the policies of a namespace cannot be read.
    """
    namespaces: dict[str, dict[str, Resource]] = defaultdict(dict)
    for resource in policies:
        namespace, _, name = resource.id.rpartition("/")
        namespaces[namespace or "default"][name] = resource
    changes: list[Change] = []
    for namespace, stated in namespaces.items():
        path = f"{_PATH}/{namespace}/networkpolicies"
        try:
            for policy in cluster.every(path):
                changes += _change(namespace, policy, stated)
        except ODD_ANSWER:
            raise CallError(path, "the answer is not understood: it is no list of policies") from None
    return changes


def _change(namespace: str, policy: Mapping[str, Any], stated: Mapping[str, Resource]) -> Iterator[Change]:
    name, spec = policy["metadata"]["name"], policy.get("spec") or {}
    if name not in stated:
        properties = tuple(Property(path=f"spec.{key}", old="", new=_text(spec[key])) for key in sorted(spec))
        yield Change(kind=Kind.CREATE, type=POLICY, name=f"{namespace}/{name}", properties=properties)
        return
    resource = stated[name]
    properties = tuple(_differences(resource.inputs.get("spec") or {}, spec))
    if properties:
        yield Change(kind=Kind.UPDATE, type=POLICY, name=resource.name, properties=properties)


def _differences(stated: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Property]:
    stated, live = _with_defaults(stated), _with_defaults(live)
    for key in sorted({*stated, *live}):
        if stated.get(key) != live.get(key):
            yield Property(path=f"spec.{key}", old=_text(stated.get(key)), new=_text(live.get(key)))


def _with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as the API server completes it: ports of TCP, no empty lists, the types of its rules."""
    types = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return _complete({**spec, "policyTypes": sorted(spec.get("policyTypes") or types)})


def _complete(node: Any, key: str = "") -> Any:
    if isinstance(node, Mapping):
        complete = {name: _complete(value, name) for name, value in node.items()}
        kept = {name: value for name, value in complete.items() if value is not None and value != []}
        return {"protocol": "TCP", **kept} if key == "ports" else kept
    if isinstance(node, list):
        return [_complete(entry, key) for entry in node]
    return node


def _text(value: Any) -> str:
    return json.dumps(value) if value is not None else ""
