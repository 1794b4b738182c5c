"""Translates the network policies of a cluster into rules of nftables for a pod.

https://kubernetes.io/docs/concepts/services-networking/network-policies/ defines what a policy means. Where
implementations differ, this module follows Cilium in GKE Dataplane V2. An `ipBlock` never matches a pod, and
refused packets are dropped without an answer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final

from rehearsal.control_plane.api import Object

TABLE: Final = "policies"
# Sets with the other side, the protocol and the port of every refused connection, by direction.
REFUSED: Final = {"Ingress": "refused_ingress", "Egress": "refused_egress"}
_HOOKS: Final = {"Ingress": "input", "Egress": "output"}
_OTHER_SIDE: Final = {"Ingress": "ip saddr", "Egress": "ip daddr"}
_LOOPBACK: Final = {"Ingress": 'iifname "lo"', "Egress": 'oifname "lo"'}
_PEERS: Final = {"Ingress": "from", "Egress": "to"}


@dataclass(frozen=True, kw_only=True)
class Peer:
    """The properties of a pod that policies use.

    Args:
        name: Its name.
        namespace: Its namespace.
        labels: Its labels.
        address: Its address.
        ports: The numbers of its ports by protocol and name.
    """

    name: str
    namespace: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, pod: Object, address: str) -> "Peer":
        """The properties of a pod's object with an address."""
        metadata = pod["metadata"]
        ports = (port for container in pod["spec"]["containers"] for port in container.get("ports") or ())
        return cls(
            name=metadata["name"],
            namespace=metadata["namespace"],
            labels=metadata.get("labels") or {},
            address=address,
            ports={
                (port.get("protocol", "TCP"), port["name"]): port["containerPort"]
                for port in ports
                if "name" in port
            },
        )


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The objects that decide about connections.

    Args:
        policies: All NetworkPolicies.
        namespaces: The labels of the namespaces, by name.
        peers: All pods that run.
        node: The address of their node. Probes come from it, so Kubernetes always admits it.
        pods: The range of the pods' addresses.
    """

    policies: Sequence[Object]
    namespaces: Mapping[str, Mapping[str, str]]
    peers: Sequence[Peer]
    node: str
    pods: str


def with_addresses(policy: Object, addresses: Mapping[str, str]) -> Object:
    """A NetworkPolicy that admits what an FQDNNetworkPolicy does.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/fqdn-network-policies

    Args:
        addresses: The addresses of servers by name.
    """
    spec = policy["spec"]
    egress = [
        {
            "to": [
                {"ipBlock": {"cidr": f"{address}/32"}}
                for name, address in addresses.items()
                if any(_is_called(name, match) for match in rule["matches"])
            ]
            # A rule without peers would admit all of them.
            or [{"ipBlock": {"cidr": "0.0.0.0/32"}}],
            "ports": rule.get("ports") or [],
        }
        for rule in spec["egress"]
    ]
    tree = {"podSelector": spec["podSelector"], "policyTypes": ["Egress"], "egress": egress}
    return {"metadata": policy["metadata"], "spec": tree}


def _is_called(name: str, match: Object) -> bool:
    """Whether a match means a server. A star stands for one part of a name."""
    pattern = re.escape(match.get("pattern", "")).replace(r"\*", "[^.]+")
    return name == match.get("name") or bool(re.fullmatch(pattern, name))


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels. An empty one matches all."""
    equal = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    matches_labels = all(labels.get(key) == value for key, value in equal)
    return matches_labels and all(_holds(expression, labels) for expression in expressions)


def rules(pod: Peer, cluster: Cluster) -> str:
    """Input of `nft -f` that writes the rules of a pod's network. The counts of older rules stay."""
    own = [
        policy["spec"]
        for policy in cluster.policies
        if policy["metadata"]["namespace"] == pod.namespace
        and selects(policy["spec"].get("podSelector") or {}, pod.labels)
    ]
    return "\n".join((_empty_table(), *(_chain(direction, pod, own, cluster) for direction in _HOOKS)))


def _empty_table() -> str:
    sets = "\n".join(
        f"set {name} {{ type ipv4_addr . inet_proto . inet_service; flags dynamic; size 4096; counter; }}"
        for name in REFUSED.values()
    )
    chains = "\n".join(
        f"chain {direction} {{ type filter hook {hook} priority filter; policy accept; }}"
        for direction, hook in _HOOKS.items()
    )
    flushes = "\n".join(f"flush chain ip {TABLE} {direction}" for direction in _HOOKS)
    return f"table ip {TABLE} {{\n{sets}\n{chains}\n}}\n{flushes}"


def _chain(direction: str, pod: Peer, policies: Sequence[Object], cluster: Cluster) -> str:
    lines = [f"{_LOOPBACK[direction]} accept", "ct state established,related accept"]
    holding = [policy for policy in policies if direction in _types(policy)]
    if holding:  # otherwise the pod is not isolated in this direction
        other = _OTHER_SIDE[direction]
        lines.append(f"{other} {cluster.node} accept")
        for policy in holding:
            for rule in policy.get(direction.lower()) or ():
                lines += [f"{match} accept".strip() for match in _matches(direction, pod, rule, cluster)]
        key, name = f"{other} . meta l4proto", REFUSED[direction]
        lines.append(f"meta l4proto {{ tcp, udp, sctp }} update @{name} {{ {key} . th dport }} drop")
        lines.append(f"update @{name} {{ {key} . 0 }} drop")
    text = "\n".join(lines)
    return f"table ip {TABLE} {{\nchain {direction} {{\n{text}\n}}\n}}"


def _types(policy: Object) -> Sequence[str]:
    """The directions of a policy. Usually the API server has written its default."""
    return policy.get("policyTypes") or (["Ingress", "Egress"] if policy.get("egress") else ["Ingress"])


def _matches(direction: str, pod: Peer, rule: Object, cluster: Cluster) -> Iterator[str]:
    """The matches of a policy's rule. Any of them admits a connection."""
    others = rule.get(_PEERS[direction])
    ports = rule.get("ports") or [None]
    if not others:
        yield from (match for port in ports for match in _anywhere(direction, pod, port, cluster))
    for other in others or ():
        if block := other.get("ipBlock"):
            if ip_network(block["cidr"]).version == 4:  # pods have no other addresses
                yield from _from_block(direction, pod, block, ports, cluster)
            continue
        peers = [peer for peer in cluster.peers if _selects_peer(other, peer, pod.namespace, cluster)]
        for port in ports:
            yield from _from_pods(direction, pod, peers, port)


def _anywhere(direction: str, pod: Peer, port: Object | None, cluster: Cluster) -> Iterator[str]:
    if direction == "Egress" and port and isinstance(port.get("port"), str):
        yield from _from_pods(direction, pod, cluster.peers, port)
    elif (match := _port(pod, port)) is not None:
        yield match


def _from_block(
    direction: str, pod: Peer, block: Object, ports: Sequence[Object | None], cluster: Cluster
) -> Iterator[str]:
    other = _OTHER_SIDE[direction]
    excluded = [cluster.pods, *(block.get("except") or ())]
    match = " ".join((f"{other} {block['cidr']}", *(f"{other} != {range}" for range in excluded)))
    for port in ports:
        named_elsewhere = direction == "Egress" and port and isinstance(port.get("port"), str)
        if not named_elsewhere and (on := _port(pod, port)) is not None:
            yield f"{match} {on}"


def _from_pods(direction: str, pod: Peer, peers: Sequence[Peer], port: Object | None) -> Iterator[str]:
    """Matches by the pods' addresses. The name of a port belongs to the pod that serves the connection."""
    for peer in peers:
        if (on := _port(pod if direction == "Ingress" else peer, port)) is not None:
            yield f"{_OTHER_SIDE[direction]} {peer.address} {on}"


def _port(server: Peer, port: Object | None) -> str | None:
    """The match of a rule's port, None if the server has no port with its name."""
    if port is None:
        return ""
    protocol, number = port.get("protocol", "TCP"), port.get("port")
    if isinstance(number, str):
        number = server.ports.get((protocol, number))
        if number is None:
            return None
    if number is None:
        return f"meta l4proto {protocol.lower()}"
    last = port.get("endPort")
    return f"{protocol.lower()} dport {number}-{last}" if last else f"{protocol.lower()} dport {number}"


def _selects_peer(other: Object, peer: Peer, namespace: str, cluster: Cluster) -> bool:
    """Whether an entry of `from` or `to` matches a pod."""
    if "namespaceSelector" in other:
        matches_namespace = selects(other["namespaceSelector"], cluster.namespaces.get(peer.namespace, {}))
    else:
        matches_namespace = peer.namespace == namespace
    return matches_namespace and selects(other.get("podSelector") or {}, peer.labels)


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    # NotIn also holds without the label.
    return (labels.get(key) in expression["values"]) == (operator == "In")
