"""What somebody added to the NetworkPolicies of a stack, which `pulumi refresh` does not see.

Pulumi's Kubernetes provider reads of a live list as many entries as the program states. A rule that was
appended, such as one that lets everybody in, stays out of sight of `refresh` and of `up --refresh`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.container import CLUSTER
from operations.clients import Clients
from operations.errors import ODD_ANSWER, CallError
from operations.previews.changes import Change, Kind, Property
from operations.state import Resource, State
from operations.status.cluster import Cluster, from_google

POLICY: Final = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
_PATH: Final = "/apis/networking.k8s.io/v1/namespaces"
REMEDY: Final = (
    "{name}: `pulumi up --refresh` does not undo what was added; first delete the policy with kubectl"
)


def added(state: State, clients: Clients) -> list[Change]:
    """Every policy of a stack whose live spec is another one than the program's.

    Args:
        state: The stack's.
        clients: Asks GKE where the cluster is.

    Raises:
        OperationError: When the cluster or one of its policies cannot be looked at.
    """
    policies = [*state.of_type(POLICY)]
    if not policies:
        return []
    changes: list[Change] = []
    for cluster in state.of_type(CLUSTER.type):
        described = clients.call("container.v1", "projects.locations.clusters.get", name=cluster.id)
        changes += compare(policies, from_google(clients, described))
    return changes


def compare(policies: list[Resource], cluster: Cluster) -> list[Change]:
    """The policies that differ in the cluster; one that is gone is left to `pulumi refresh`.

    Raises:
        OperationError: When one cannot be read.
    """
    changes = []
    for policy in policies:
        namespace, _, name = policy.id.rpartition("/")
        try:
            live = json.loads(cluster.text(f"{_PATH}/{namespace or 'default'}/networkpolicies/{name}"))
            properties = tuple(_differences(policy.inputs.get("spec") or {}, live.get("spec") or {}))
        except CallError as error:
            if error.missing:
                continue
            raise
        except ODD_ANSWER:
            raise CallError(policy.id, "the answer is not understood: it is no policy") from None
        if properties:
            changes.append(Change(kind=Kind.UPDATE, type=POLICY, name=policy.name, properties=properties))
    return changes


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
