"""Enforces the network policies of a cluster, by nftables in the network of every pod."""

import json
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Collection, Set
from typing import Final

from rehearsal.control_plane.api import Api
from rehearsal.pods.network import ADDRESSES, AGENT, NODE, PODS, run
from rehearsal.pods.pod import Pod
from rehearsal.pods.policies import REFUSED, TABLE, Cluster, Peer, rules, with_addresses

# Debian installs nft here, outside of the PATH of most users.
_FOLDERS: Final = "/usr/sbin:/sbin"
_ENDED: Final = ("Succeeded", "Failed")
# GKE's agent, which has the address of a pod: assumption konnectivity-host-network.
KONNECTIVITY_AGENT: Final = Peer(
    name="konnectivity-agent",
    namespace="kube-system",
    labels={"k8s-app": "konnectivity-agent"},
    address=AGENT,
)
_PROTOCOLS: Final = {1: "ICMP", 6: "TCP", 17: "UDP", 132: "SCTP"}


def missing() -> str:
    """Why this machine cannot enforce network policies, and what to do. Empty if it can."""
    if not (nft := _nft()):
        return "network policies are not enforced: nft is not there: apt-get install nftables"
    pod = Peer(name="", namespace="", address="10.8.0.2")
    policy = {"metadata": {"namespace": ""}, "spec": {"policyTypes": [*REFUSED]}}
    cluster = Cluster(policies=[policy], namespaces={}, peers=(), node=NODE, pods=PODS)
    result = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", nft, "--file", "-"],
        input=rules(pod, cluster),
        capture_output=True,
        text=True,
        check=False,
    )
    if not result.returncode:
        return ""
    reason = next(iter(result.stderr.splitlines()), f"nft ended with {result.returncode}")
    return f"network policies are not enforced: this kernel lacks nftables: {reason}"


class Firewall:
    """Enforces the network policies.

    Args:
        api: The API server, which has the policies.

    Attributes:
        missing: Why it enforces nothing on this machine, empty if it does.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {AGENT: _name(KONNECTIVITY_AGENT)}
        self._refused: Counter[str] = Counter()
        self._known: list[Pod] = []
        self._gone: set[str] = set()
        self.missing = missing()

    def follow(self, pods: Collection[Pod]) -> None:
        """Updates the rules of these pods. They follow from the present policies and the other pods.

        Raises:
            RehearsalError: If nft fails, with its message.
        """
        if self.missing:
            return
        with self._lock:
            own = [(pod, Peer.of(pod.tree, pod.address)) for pod in pods]
            peers = [peer for pod, peer in own if (pod.tree.get("status") or {}).get("phase") not in _ENDED]
            self._note_gone({pod.address for pod in pods} - {peer.address for peer in peers})
            self._known = list(pods)
            self._names |= {peer.address: _name(peer) for peer in peers}
            spaces = [space["metadata"] for space in self._api.list("v1", "Namespace")]
            by_name = self._api.list("networking.gke.io/v1alpha1", "FQDNNetworkPolicy")
            policies = self._api.list("networking.k8s.io/v1", "NetworkPolicy")
            policies += [with_addresses(policy, ADDRESSES) for policy in by_name]
            cluster = Cluster(
                policies=policies,
                namespaces={space["name"]: space.get("labels") or {} for space in spaces},
                peers=[*peers, KONNECTIVITY_AGENT],
                node=NODE,
                pods=PODS,
            )
            for pod, peer in own:
                text = rules(peer, cluster)
                if self._rules.get(pod.address) != text:
                    run(*pod.enter, _nft(), "--file", "-", text=text)
                    self._rules[pod.address] = text

    def forget(self, pod: Pod) -> None:
        """Drops a pod that is about to end, and keeps the count of its refused packets."""
        with self._lock:
            self._refused += self._refused_of(pod)
            self._rules.pop(pod.address, None)
            self._known = [other for other in self._known if other is not pod]
            self._note_gone({pod.address})

    def refused(self, pods: Collection[Pod]) -> Counter[str]:
        """The number of dropped packets by connection, of these pods and of the forgotten ones."""
        with self._lock:
            return sum((self._refused_of(pod) for pod in pods), Counter(self._refused))

    def _note_gone(self, addresses: Set[str]) -> None:
        """Keeps what was refused to and from pods that have ended. Later packets to them need no answer."""
        if new := addresses - self._gone:
            for pod in self._known:
                self._refused += self._refused_of(pod, new)
            self._gone |= new

    def _refused_of(self, pod: Pod, only: Set[str] | None = None) -> Counter[str]:
        """The dropped packets of a pod by connection, with these addresses or with all that are not gone."""
        counts: Counter[str] = Counter()
        if pod.address not in self._rules:
            return counts
        own = _name(Peer.of(pod.tree, pod.address))
        for direction, name in REFUSED.items():
            listed = run(*pod.enter, _nft(), "--json", "--numeric", "list", "set", "ip", TABLE, name)
            (refused,) = [entry["set"] for entry in json.loads(listed)["nftables"] if "set" in entry]
            for entry in refused.get("elem") or ():
                address, protocol, port = entry["elem"]["val"]["concat"]
                if address in self._gone or (only is not None and address not in only):
                    continue
                other = self._names.get(address, address)
                source, target = (other, own) if direction == "Ingress" else (own, other)
                service = f"{_PROTOCOLS.get(protocol, protocol)} {port or ''}".rstrip()
                counts[f"{source} to {target}, {service}"] += entry["elem"]["counter"]["packets"]
        return counts


def _nft() -> str:
    """The path of nft, empty if it is not installed."""
    return shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:{_FOLDERS}") or ""


def _name(peer: Peer) -> str:
    return f"{peer.namespace}/{peer.name}"
