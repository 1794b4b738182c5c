"""Network policies hold for pods that are run: with each policy of the program, and without it."""

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final

import pytest

from components.base.manifest import Manifest
from components.network.ranges import NOT_PUBLIC
from engine.project import ROOT
from rehearsal.control_plane.api import Api, ApiError, Object, is_true, until
from rehearsal.pods import firewall
from rehearsal.pods.kubelet import Kubelet
from rehearsal.pods.network import METADATA, OUTSIDE
from rehearsal.pods.pod import Pod
from rehearsal.running_pods.stage import TIMEOUT
from rehearsal.stand_ins.loopback import LoopbackServer, Request

LLM, ELSEWHERE, MONITORING = "policies", "elsewhere", "gke-gmp-system"
# Pods by namespace and name, with their labels.
PODS: Final = {
    (LLM, "trainer"): {"app": "finetune"},
    (LLM, "trainer-2"): {"app": "finetune"},
    (LLM, "server"): {"app": "serving"},
    (LLM, "head"): {"ray.io/is-ray-node": "yes"},
    (ELSEWHERE, "stranger"): {"app": "finetune"},
    (MONITORING, "collector"): {},
}
# Ports at which all of them listen.
PORTS: Final = (8000, 8001, 8080, 8265, 29500)
SCRIPT: Final = "; ".join(f"python -m http.server {port} >/dev/null 2>&1 &" for port in PORTS).replace(
    "&;", "&"
)
CONNECT: Final = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


class Answering(LoopbackServer):
    """A server outside of the cluster."""

    def serve(self, request: Request) -> None:
        request.answer(200, b"")


class Pods:
    """Pods that listen, and what they reach of each other."""

    def __init__(self, api: Api, kubelet: Kubelet) -> None:
        self._api, self._kubelet = api, kubelet

    def reaches(self, client: str, server: str, port: int) -> bool:
        """Whether a pod reaches another's port. A server with a dot is an address, and no pod."""
        address = server if "." in server else self.address_of(server)
        command = ["python", "-c", CONNECT, address, str(port)]
        return self._pod(client).process("main").execute(command, TIMEOUT)

    def address_of(self, name: str) -> str:
        """The address of a pod."""
        return self._pod(name).address

    def comes_to(self, client: str, server: str, port: int, *, passes: bool) -> None:
        """Waits until a pod reaches another, or is refused.

        On a busy machine a connection may also take too long. So only a packet that the firewall counts is
        a refusal.
        """
        what = f"{_path(client)} to {server if '.' in server else _path(server)}, TCP {port}"
        before = self.refused(what)
        until(
            lambda: f"{client} {'to reach' if passes else 'to be refused at'} {server}:{port}",
            lambda: self.reaches(client, server, port) == passes and (passes or self.refused(what) > before),
            TIMEOUT,
        )

    def refused(self, what: str) -> int:
        """How many packets were refused, by source, target, protocol and port."""
        return self._kubelet.refused()[what]

    def answers_the_api_server(self, name: str, port: int) -> bool:
        """Whether a pod is reached by `pods/proxy` of the API server."""
        try:
            self._api.request("GET", f"/api/v1/namespaces/{LLM}/pods/{name}:{port}/proxy/")
        except ApiError:
            return False
        return True

    def _pod(self, name: str) -> Pod:
        pod = self._kubelet.pod(name)
        assert pod, name
        return pod


@pytest.fixture(scope="module")
def pods(api: Api, kubelet: Kubelet) -> Iterator[Pods]:
    if reason := firewall.missing():
        pytest.skip(reason)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "policies"}}
    namespaces = [_object("v1", "Namespace", {"name": name}) for name in (LLM, ELSEWHERE, MONITORING)]
    trees = [_pod(namespace, name, labels) for (namespace, name), labels in PODS.items()]
    for tree in (node, *namespaces):
        api.apply(tree)
    for tree in namespaces:
        account = _object("v1", "ServiceAccount", {"name": "default", "namespace": tree["metadata"]["name"]})
        until(lambda: "a service account", lambda account=account: api.get(account))
    for tree in trees:
        api.create(tree)
    until(
        lambda: "the pods to be ready",
        lambda: all(is_true(api.get(tree), "Ready") for tree in trees),
        TIMEOUT,
    )
    yield Pods(api, kubelet)
    for tree in trees:
        api.delete(api.get(tree) or tree, ended=True)
    for tree in (*namespaces, node):
        api.delete(tree)


@pytest.fixture
def apply(api: Api, pods: Pods) -> Iterator[Callable[[Object], Object]]:
    """Applies a policy until the end of the test."""
    applied: list[Object] = []

    def apply(policy: Object) -> Object:
        applied.append(policy)
        return api.apply(policy)

    yield apply
    for policy in applied:
        api.delete(policy)
        until(lambda: "a policy to go", lambda policy=policy: not api.get(policy))


def _path(name: str) -> str:
    """The namespace and the name of a pod. Those that a test adds are in `LLM`."""
    return f"{next((space for space, pod in PODS if pod == name), LLM)}/{name}"


def _object(version: str, kind: str, metadata: Object, **fields: object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _pod(namespace: str, name: str, labels: Mapping[str, str]) -> Object:
    """A pod whose readiness its kubelet asks for. No policy refuses the kubelet."""
    probe = {"tcpSocket": {"port": PORTS[-1]}, "periodSeconds": 1}
    container = {
        "name": "main",
        "image": "finetune",
        "command": ["sh", "-c", f"{SCRIPT} exec sleep infinity"],
        "readinessProbe": probe,
    }
    spec = {
        "nodeName": "policies",
        "containers": [container],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
    }
    return _object("v1", "Pod", {"name": name, "namespace": namespace, "labels": {**labels}}, spec=spec)


def manifest(path: str) -> Object:
    """A policy of the program."""
    values = {"namespace": LLM, "notPublic": [*NOT_PUBLIC]}
    text = (ROOT / path).read_text()
    return Manifest(ROOT / path, {hole: values[hole] for hole in values if f"${{{hole}}}" in text}).tree


def policy(name: str, **spec: object) -> Object:
    metadata = {"name": name, "namespace": LLM}
    return _object("networking.k8s.io/v1", "NetworkPolicy", metadata, spec={"podSelector": {}, **spec})


DENIES = "workloads/l4-kueue/deny-ingress.yaml"
Apply = Callable[[Object], Object]


@pytest.mark.parametrize(
    ("path", "client", "server", "port"),
    [
        ("workloads/l4-kueue/ingress-to-finetune.yaml", "trainer", "trainer-2", 29500),
        ("workloads/l4-kueue/ingress-to-serving.yaml", "trainer", "server", 8000),
        ("components/manifests/ingress-from-inside.yaml", "trainer", "head", 8265),
        ("components/manifests/ingress-from-platform.yaml", "collector", "head", 8080),
        ("components/manifests/ingress-to-metrics.yaml", "collector", "server", 8000),
        ("components/manifests/ingress-to-metrics.yaml", "collector", "trainer", 8001),
    ],
)
def test_what_a_policy_of_the_program_allows_passes_and_is_refused_without_it(
    pods: Pods, apply: Apply, api: Api, path: str, client: str, server: str, port: int
) -> None:
    apply(manifest(DENIES))
    allows = apply(manifest(path))
    pods.comes_to("stranger", server, port, passes=False)
    pods.comes_to(client, server, port, passes=True)
    api.delete(allows)
    pods.comes_to(client, server, port, passes=False)


def test_a_port_that_no_policy_opens_is_refused(pods: Pods, apply: Apply) -> None:
    apply(manifest(DENIES))
    apply(manifest("workloads/l4-kueue/ingress-to-serving.yaml"))
    pods.comes_to("trainer", "server", 8080, passes=False)
    pods.comes_to("trainer", "server", 8000, passes=True)


def test_the_api_server_reaches_rays_dashboard_by_the_policy_for_konnectivity_alone(
    pods: Pods, apply: Apply, api: Api
) -> None:
    apply(manifest("components/manifests/ingress-from-inside.yaml"))
    refused = f"kube-system/konnectivity-agent to {LLM}/head, TCP 8265"
    until(
        lambda: "a refusal",
        lambda: not pods.answers_the_api_server("head", 8265) and pods.refused(refused),
        TIMEOUT,
    )
    apply(manifest("components/manifests/ingress-from-platform.yaml"))
    until(lambda: "an answer", lambda: pods.answers_the_api_server("head", 8265), TIMEOUT)
    assert not pods.answers_the_api_server("head", 8000)


PLATFORM = "components/manifests/egress-to-platform.yaml"
EGRESS = "components/manifests/egress-to-https.yaml"
BY_NAME = "components/manifests/egress-to-google-and-hub.yaml"
# Servers outside of the cluster that pods may reach, and some that they may not, by address and port.
ADMITTED: Final = ((OUTSIDE, 443), (METADATA, 80))
REFUSED: Final = ((OUTSIDE, 8443), (METADATA, 443))


@pytest.fixture
def outside() -> Iterator[None]:
    """Servers at all these addresses."""
    with ExitStack() as servers:
        for host, port in (*ADMITTED, *REFUSED):
            server = Answering()
            server.host, server.port = host, port
            try:
                servers.enter_context(server)
            except OSError as error:
                # Other tests of this process have left their own server at this address, which answers too.
                if error.errno != errno.EADDRINUSE:
                    raise
        yield


@pytest.mark.usefixtures("outside")
def test_a_pod_connects_to_its_namespace_to_https_servers_and_to_the_metadata_server_alone(
    pods: Pods, apply: Apply
) -> None:
    closed = [*REFUSED, ("stranger", 8000), ("collector", 29500)]
    for server, port in closed:
        pods.comes_to("trainer", server, port, passes=True)
    apply(manifest(PLATFORM))
    apply(manifest(EGRESS))
    for server, port in closed:
        pods.comes_to("trainer", server, port, passes=False)
    for server, port in [*ADMITTED, ("trainer-2", 29500), ("head", 8265)]:
        pods.comes_to("trainer", server, port, passes=True)
    assert pods.refused(f"{LLM}/trainer to {OUTSIDE}, TCP 8443")
    assert not pods.refused(f"{LLM}/trainer to {OUTSIDE}, TCP 443")


def test_a_packet_to_a_pod_that_has_ended_is_no_refusal(pods: Pods, apply: Apply, api: Api) -> None:
    """The policies do not know its address any more, and nobody there needs the packet."""
    leaver = api.create(_pod(LLM, "leaver", PODS[LLM, "trainer"]))
    until(lambda: "the pod to be ready", lambda: is_true(api.get(leaver), "Ready"), TIMEOUT)
    apply(manifest(PLATFORM))
    apply(manifest(EGRESS))
    pods.comes_to("trainer", "stranger", 8000, passes=False)
    pods.comes_to("trainer", "leaver", PORTS[-1], passes=True)
    address = pods.address_of("leaver")
    api.delete(leaver, ended=True)
    until(lambda: "the pod to go", lambda: not pods.reaches("trainer", address, PORTS[-1]), TIMEOUT)
    assert not pods.refused(f"{LLM}/trainer to {LLM}/leaver, TCP {PORTS[-1]}")


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("path", "number", "server", "port"),
    [(PLATFORM, 0, "trainer-2", 29500), (PLATFORM, 2, METADATA, 80), (EGRESS, 0, OUTSIDE, 443)],
)
def test_what_a_pod_needs_is_refused_without_its_rule_for_egress(
    path: str, number: int, server: str, port: int, pods: Pods, apply: Apply
) -> None:
    """Each rule is needed, and no other rule admits the same."""
    for other in {PLATFORM, EGRESS} - {path}:
        apply(manifest(other))
    policy = manifest(path)
    del policy["spec"]["egress"][number]
    apply(policy)
    pods.comes_to("trainer", server, port, passes=False)


@pytest.mark.usefixtures("outside")
def test_a_pod_connects_by_name_to_googles_apis_and_to_the_hub_alone(pods: Pods, apply: Apply) -> None:
    """Without its name in the list, the Hub is like any other server."""
    apply(manifest(PLATFORM))
    by_name = apply(manifest(BY_NAME))
    # First what is refused: before that, no policy is enforced yet.
    pods.comes_to("trainer", OUTSIDE, 8443, passes=False)
    pods.comes_to("trainer", "stranger", 8000, passes=False)
    pods.comes_to("trainer", OUTSIDE, 443, passes=True)
    matches = by_name["spec"]["egress"][0]["matches"]
    without_hub = [match for match in matches if "googleapis" in match.get("pattern", "")]
    assert 0 < len(without_hub) < len(matches)
    by_name["spec"]["egress"][0]["matches"] = without_hub
    apply(manifest(BY_NAME) | {"spec": by_name["spec"]})
    pods.comes_to("trainer", OUTSIDE, 443, passes=False)


def test_a_pod_that_may_connect_to_nothing_is_still_probed_and_reaches_what_a_rule_names(
    pods: Pods, apply: Apply, api: Api
) -> None:
    bucket = Answering()
    bucket.host = OUTSIDE
    with bucket:
        port = int(bucket.address.rpartition(":")[2])
        apply(policy("deny-all", policyTypes=["Ingress", "Egress"]))
        pods.comes_to("trainer", OUTSIDE, port, passes=False)
        assert pods.refused(f"{LLM}/trainer to {OUTSIDE}, TCP {port}")
        block = {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}
        apply(policy("egress", policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}]}]))
        pods.comes_to("trainer", OUTSIDE, port, passes=True)
        assert not pods.reaches("trainer", "stranger", 8000)
    tree = _pod(LLM, "probed", {})
    api.create(tree)
    until(lambda: "a probe to pass", lambda: is_true(api.get(tree), "Ready"), TIMEOUT)
    assert not pods.reaches("trainer-2", "probed", PORTS[-1])
    api.delete(api.get(tree) or tree, ended=True)
