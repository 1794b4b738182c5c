"""The rules of nftables that network policies become. No kernel loads them."""

import json
import re
from typing import Any

import pytest

from rehearsal.pods import firewall
from rehearsal.pods.policies import Cluster, Peer, rules, selects

NODE, PODS = "10.8.0.1", "10.8.0.0/16"
SERVER = Peer(
    name="server",
    namespace="llm",
    labels={"app": "serving"},
    address="10.8.0.2",
    ports={("TCP", "http"): 8000},
)
CLIENT = Peer(
    name="client",
    namespace="llm",
    labels={"app": "client"},
    address="10.8.0.3",
    ports={("TCP", "http"): 9000},
)
STRANGER = Peer(name="stranger", namespace="other", labels={"app": "client"}, address="10.8.0.4")
FROM = "ip saddr"
TO = "ip daddr"


def allowed(
    direction: str, *policies: dict[str, Any], pod: Peer = SERVER, namespace: str = "llm"
) -> list[str]:
    """The connections that these policies of a namespace let a pod have in a direction."""
    lines = chain(direction, *policies, pod=pod, namespace=namespace)
    base = [f"{FROM if direction == 'Ingress' else TO} {NODE} accept"]
    assert lines[2:3] == base, "a pod that is selected is isolated, but never from its node"
    assert lines[-1].endswith(" drop")
    return [line.removesuffix(" accept") for line in lines[3:-2]]


def chain(direction: str, *policies: dict[str, Any], pod: Peer = SERVER, namespace: str = "llm") -> list[str]:
    trees = [{"metadata": {"namespace": namespace}, "spec": {"podSelector": {}, **spec}} for spec in policies]
    cluster = Cluster(
        policies=trees,
        namespaces={"llm": {"team": "ml"}, "other": {"team": "web"}},
        peers=[SERVER, CLIENT, STRANGER],
        node=NODE,
        pods=PODS,
    )
    (text,) = re.findall(
        rf"table ip policies {{\nchain {direction} {{\n(.*?)\n}}", rules(pod, cluster), re.DOTALL
    )
    lines = text.splitlines()
    interface = "iifname" if direction == "Ingress" else "oifname"
    assert lines[:2] == [f'{interface} "lo" accept', "ct state established,related accept"]
    return lines


def test_a_pod_that_no_policy_selects_refuses_nothing() -> None:
    other = {"podSelector": {"matchLabels": {"app": "another"}}}
    assert len(chain("Ingress")) == len(chain("Ingress", other)) == 2
    assert len(chain("Ingress", {}, namespace="other")) == 2, "of another namespace"


def test_a_policy_isolates_in_the_directions_that_it_names() -> None:
    assert allowed("Ingress", {"policyTypes": ["Ingress"]}) == []
    assert len(chain("Egress", {"policyTypes": ["Ingress"]})) == 2
    assert allowed("Egress", {"policyTypes": ["Egress"]}) == []
    assert len(chain("Ingress", {"policyTypes": ["Egress"]})) == 2


def test_the_rules_of_all_policies_count_together() -> None:
    opens = {"ingress": [{"ports": [{"port": 1}]}, {"ports": [{"protocol": "UDP", "port": 2}]}]}
    assert allowed("Ingress", {}, opens) == ["tcp dport 1", "udp dport 2"]


@pytest.mark.parametrize(
    ("peer", "addresses"),
    [
        ({"podSelector": {}}, ["10.8.0.2", "10.8.0.3"]),
        ({"podSelector": {"matchLabels": {"app": "client"}}}, ["10.8.0.3"]),
        ({"namespaceSelector": {}}, ["10.8.0.2", "10.8.0.3", "10.8.0.4"]),
        ({"namespaceSelector": {"matchLabels": {"team": "web"}}}, ["10.8.0.4"]),
        (
            {
                "namespaceSelector": {"matchLabels": {"team": "ml"}},
                "podSelector": {"matchLabels": {"app": "client"}},
            },
            ["10.8.0.3"],
        ),
        ({"podSelector": {"matchLabels": {"app": "nobody"}}}, []),
    ],
)
def test_peers_are_the_pods_that_both_selectors_mean(peer: dict[str, Any], addresses: list[str]) -> None:
    assert [line.strip() for line in allowed("Ingress", {"ingress": [{"from": [peer]}]})] == [
        f"{FROM} {address}" for address in addresses
    ]


def test_a_block_of_addresses_means_no_pod_and_not_what_is_excepted() -> None:
    block = {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.0.0/16"]}
    (line,) = allowed("Ingress", {"ingress": [{"from": [{"ipBlock": block}], "ports": [{"port": 80}]}]})
    excluded = " ".join(f"{FROM} != {cidr}" for cidr in (PODS, "10.1.0.0/16", "10.2.0.0/16"))
    assert line == f"{FROM} 10.0.0.0/8 {excluded} tcp dport 80"
    assert allowed("Ingress", {"ingress": [{"from": [{"ipBlock": {"cidr": "fd00::/8"}}]}]}) == []


@pytest.mark.parametrize(
    ("port", "match"),
    [
        ({"port": 80}, ["tcp dport 80"]),
        ({"port": 80, "endPort": 90}, ["tcp dport 80-90"]),
        ({"protocol": "UDP", "port": 53}, ["udp dport 53"]),
        ({"protocol": "SCTP"}, ["meta l4proto sctp"]),
        ({"port": "http"}, ["tcp dport 8000"]),
        ({"port": "metrics"}, []),
        ({"protocol": "UDP", "port": "http"}, []),
    ],
)
def test_ports_are_numbers_ranges_or_names_of_the_pod(port: dict[str, Any], match: list[str]) -> None:
    assert allowed("Ingress", {"ingress": [{"ports": [port]}]}) == match


def test_a_named_port_of_a_connection_to_others_is_theirs() -> None:
    rule = {"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}
    expected = [f"{TO} 10.8.0.2 tcp dport 8000", f"{TO} 10.8.0.3 tcp dport 9000"]
    assert allowed("Egress", {"policyTypes": ["Egress"], "egress": [rule]}) == expected
    everywhere = {"ports": [{"port": "http"}]}
    assert allowed("Egress", {"policyTypes": ["Egress"], "egress": [everywhere]}) == expected


def test_a_rule_that_says_nothing_allows_everything() -> None:
    for direction in ("Ingress", "Egress"):
        assert allowed(direction, {"policyTypes": [direction], direction.lower(): [{}]}) == ["accept"]


@pytest.mark.parametrize(
    ("operator", "values", "meant"),
    [
        ("In", ["a", "b"], [True, False, False]),
        ("NotIn", ["a", "b"], [False, True, True]),
        ("Exists", None, [True, True, False]),
        ("DoesNotExist", None, [False, False, True]),
    ],
)
def test_expressions_of_selectors(operator: str, values: list[str] | None, meant: list[bool]) -> None:
    selector = {"matchExpressions": [{"key": "x", "operator": operator, "values": values}]}
    assert [selects(selector, labels) for labels in ({"x": "a"}, {"x": "c"}, {"y": "a"})] == meant


def test_pods_are_known_by_the_names_of_their_ports() -> None:
    container = {"ports": [{"name": "http", "containerPort": 8000}, {"containerPort": 9}]}
    tree = {"metadata": {"name": "p", "namespace": "llm"}, "spec": {"containers": [container]}}
    assert Peer.of(json.loads(json.dumps(tree)), "10.8.0.9").ports == {("TCP", "http"): 8000}


def test_where_nft_is_not_there_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert (
        firewall.missing() == "network policies are not enforced: nft is not there: apt-get install nftables"
    )
