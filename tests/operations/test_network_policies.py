"""What somebody added to a network policy is seen, although Pulumi's refresh does not see it."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations import drift, network_policies
from operations.previews.changes import Change, Kind, Property, StackPreview
from operations.state import Resource, State
from operations.status.cluster import from_kubeconfig
from tests.operations.google_server import REFUSED
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.past_stack import PastStack

PATH = "/apis/networking.k8s.io/v1/namespaces/llm/networkpolicies"
CLOSED: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}
OPEN_TO_PEERS: dict[str, Any] = {
    **CLOSED,
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}], "ports": [{"port": 8000}]}],
}
ANYBODY: Any = {"ipBlock": {"cidr": "0.0.0.0/0"}}


@pytest.fixture
def cluster() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        yield server


def policy(stated: Any) -> Resource:
    """The policy of the program with this spec."""
    return Resource(
        type=network_policies.POLICY, id="llm/p", outputs={}, name="policy", inputs={"spec": stated}
    )


def plant(cluster: KubernetesServer, name: str, spec: Any) -> None:
    """Lets a policy exist in the cluster."""
    cluster.plant(PATH, {"metadata": {"name": name, "namespace": "llm"}, "spec": spec})


def changed(cluster: KubernetesServer, folder: Path, stated: Any, live: Any) -> list[str]:
    """Paths at which the policy of this spec differs in the cluster."""
    plant(cluster, "p", live)
    changes = network_policies.compare([policy(stated)], from_kubeconfig(cluster.kubeconfig(folder)))
    return [prop.path for change in changes for prop in change.properties]


def live_rule(**more: Any) -> dict[str, Any]:
    """The rule of `OPEN_TO_PEERS` as the API server completes it, with more in it."""
    (rule,) = OPEN_TO_PEERS["ingress"]
    return {**rule, "ports": [{"port": 8000, "protocol": "TCP"}], **more}


@pytest.mark.parametrize(
    ("stated", "live"),
    [
        (CLOSED, {**CLOSED, "ingress": [{}]}),
        ({**CLOSED, "ingress": []}, {**CLOSED, "ingress": [{}]}),
        (OPEN_TO_PEERS, {**CLOSED, "ingress": [live_rule(), {}]}),
        (
            OPEN_TO_PEERS,
            {**CLOSED, "ingress": [live_rule(**{"from": [*OPEN_TO_PEERS["ingress"][0]["from"], ANYBODY]})]},
        ),
        (OPEN_TO_PEERS, {**CLOSED, "ingress": [live_rule(ports=[{"port": 8000}, {"port": 22}])]}),
    ],
    ids=["opened", "opened, stated as an empty list", "a rule", "a peer", "a port"],
)
def test_what_was_added_to_a_policy_is_told(
    stated: Any, live: Any, cluster: KubernetesServer, tmp_path: Path
) -> None:
    assert changed(cluster, tmp_path, stated, live) == ["spec.ingress"]


@pytest.mark.parametrize(
    ("stated", "live"),
    [
        ({**CLOSED, "ingress": []}, CLOSED),
        ({"podSelector": {}}, CLOSED),
        (OPEN_TO_PEERS, {**CLOSED, "ingress": [live_rule()]}),
    ],
    ids=["empty list", "default type", "default protocol"],
)
def test_what_the_api_server_completes_is_no_drift(
    stated: Any, live: Any, cluster: KubernetesServer, tmp_path: Path
) -> None:
    assert changed(cluster, tmp_path, stated, live) == []


def test_a_policy_that_is_gone_is_left_to_the_engine_and_a_refusal_is_not(
    cluster: KubernetesServer, tmp_path: Path
) -> None:
    known = from_kubeconfig(cluster.kubeconfig(tmp_path))
    assert network_policies.compare([policy(CLOSED)], known) == []
    cluster.fail(PATH, REFUSED)
    with pytest.raises(network_policies.CallError, match="403"):
        network_policies.compare([policy(CLOSED)], known)


def test_a_list_that_is_none_of_policies_is_an_error(cluster: KubernetesServer, tmp_path: Path) -> None:
    cluster.plant(PATH, {"spec": CLOSED})
    with pytest.raises(network_policies.CallError, match="no list of policies"):
        network_policies.compare([policy(CLOSED)], from_kubeconfig(cluster.kubeconfig(tmp_path)))


def test_a_policy_of_somebody_else_is_reported_only_where_the_stack_has_policies(
    cluster: KubernetesServer, tmp_path: Path
) -> None:
    """Beside the stack's own policies another one can only let traffic in.

    Elsewhere it can only block traffic.
    """
    plant(cluster, "p", CLOSED)
    plant(cluster, "open", {"podSelector": {}, "ingress": [{}]})
    elsewhere = PATH.replace("/llm/", "/kube-system/")
    cluster.plant(elsewhere, {"metadata": {"name": "other"}, "spec": CLOSED})
    (change,) = network_policies.compare([policy(CLOSED)], from_kubeconfig(cluster.kubeconfig(tmp_path)))
    assert (change.kind, change.name) == (Kind.CREATE, "llm/open")
    assert [(prop.path, prop.new) for prop in change.properties] == [
        ("spec.ingress", "[{}]"),
        ("spec.podSelector", "{}"),
    ]
    assert "kubectl --namespace llm delete networkpolicy open" in network_policies.remedy(change)


@pytest.mark.parametrize(
    ("kind", "name", "cure", "unchanged"),
    [
        (Kind.UPDATE, "closed", "first delete the policy with kubectl", 8),
        (Kind.CREATE, "llm/open", "kubectl --namespace llm delete networkpolicy open", 9),
    ],
)
def test_drift_shows_the_rule_that_was_added_and_the_cure(
    kind: Kind,
    name: str,
    cure: str,
    unchanged: int,
    neutral: PastStack,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rule = Property(path="spec.ingress", old="", new="[{}]")
    change = Change(kind=kind, type=network_policies.POLICY, name=name, properties=(rule,))
    monkeypatch.setattr(
        "operations.previews.sources.drift", lambda stack: StackPreview(stack=stack, unchanged=9)
    )
    monkeypatch.setattr("operations.state.Backend.now", lambda _: neutral.alive)
    monkeypatch.setattr(drift, "clients_of", lambda *_: None)
    monkeypatch.setattr("operations.network_policies.added", lambda *_: [change])
    monkeypatch.setattr("operations.previews.checkout.head", lambda _: "c" * 40)
    assert drift.run(Namespace(stack=["neutral"])) == 1
    report = capsys.readouterr().out
    assert "spec.ingress" in report and "[{}]" in report
    assert cure in report
    assert f" {unchanged} |\n" in report


def test_policies_that_cannot_be_compared_are_said_to_be_unseen(
    neutral: PastStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with a control plane that this machine does not reach."""

    def unreachable(_state: State, _clients: object) -> list[Any]:
        raise network_policies.CallError("/apis", "no answer from the cluster")

    monkeypatch.setattr("operations.previews.sources.drift", lambda stack: StackPreview(stack=stack))
    monkeypatch.setattr("operations.state.Backend.now", lambda _: neutral.alive)
    monkeypatch.setattr(drift, "clients_of", lambda *_: None)
    monkeypatch.setattr("operations.network_policies.added", unreachable)
    monkeypatch.setattr("operations.previews.checkout.head", lambda _: "c" * 40)
    assert drift.run(Namespace(stack=["neutral"])) == 1
    assert "NetworkPolicies were not compared" in capsys.readouterr().out
