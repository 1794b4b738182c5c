"""The network policies of a cluster, enforced in the network of each of its pods by nftables."""

import json
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Collection
from typing import Final

from rehearsal.control_plane.api import Api
from rehearsal.pods.network import AGENT, NODE, PODS, run
from rehearsal.pods.pod import Pod
from rehearsal.pods.policies import REFUSED, TABLE, Cluster, Peer, rules

# On Debian not on the PATH of every user.
_FOLDERS: Final = "/usr/sbin:/sbin"
_ENDED: Final = ("Succeeded", "Failed")
# GKE's own, which has an address of a pod: assumption konnectivity-host-network.
KONNECTIVITY_AGENT: Final = Peer(
    name="konnectivity-agent",
    namespace="kube-system",
    labels={"k8s-app": "konnectivity-agent"},
    address=AGENT,
)
_PROTOCOLS: Final = {1: "ICMP", 6: "TCP", 17: "UDP", 132: "SCTP"}


def missing() -> str:
    """Why network policies cannot be enforced on this machine, and what to do; empty when they can."""
    if not (nft := _nft()):
        return "network policies are not enforced: nft is not there: apt-get install nftables"
    pod = Peer(name="", namespace="", address="10.8.0.2")
    policy = {"metadata": {"namespace": ""}, "spec": {"policyTypes": [*REFUSED]}}
    cluster = Cluster(policies=[policy], namespaces={}, peers=(), node=NODE, pods=PODS)
    tried = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", nft, "--file", "-"],
        input=rules(pod, cluster),
        capture_output=True,
        text=True,
        check=False,
    )
    if not tried.returncode:
        return ""
    reason = next(iter(tried.stderr.splitlines()), f"nft ended with {tried.returncode}")
    return f"network policies are not enforced: this kernel lacks nftables: {reason}"


class Firewall:
    """What enforces them.

    Args:
        api: The API server, which has the policies.

    Attributes:
        missing: Why it enforces nothing here; empty when it does.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {AGENT: _name(KONNECTIVITY_AGENT)}
        self._refused: Counter[str] = Counter()
        self.missing = missing()

    def follow(self, pods: Collection[Pod]) -> None:
        """Gives these pods the rules that follow from the policies and from each other, as they are now.

        Raises:
            RehearsalError: With what nft says.
        """
        if self.missing:
            return
        with self._lock:
            own = [(pod, Peer.of(pod.tree, pod.address)) for pod in pods]
            peers = [peer for pod, peer in own if (pod.tree.get("status") or {}).get("phase") not in _ENDED]
            self._names |= {peer.address: _name(peer) for peer in peers}
            spaces = [space["metadata"] for space in self._api.list("v1", "Namespace")]
            cluster = Cluster(
                policies=self._api.list("networking.k8s.io/v1", "NetworkPolicy"),
                namespaces={space["name"]: space.get("labels") or {} for space in spaces},
                peers=[*peers, KONNECTIVITY_AGENT],
                node=NODE,
                pods=PODS,
            )
            for pod, peer in own:
                text = rules(peer, cluster)
                if self._rules.get(pod.address) != text:
                    run(*pod.enter, _nft(), "--file", "-", said=text)
                    self._rules[pod.address] = text

    def forget(self, pod: Pod) -> None:
        """Leaves a pod that is about to end, and keeps the count of what was refused."""
        with self._lock:
            self._refused += self._refused_of(pod)
            self._rules.pop(pod.address, None)

    def refused(self, pods: Collection[Pod]) -> Counter[str]:
        """Packets that were dropped, by what they were: those of these pods and of the forgotten ones."""
        with self._lock:
            return sum((self._refused_of(pod) for pod in pods), Counter(self._refused))

    def _refused_of(self, pod: Pod) -> Counter[str]:
        counts: Counter[str] = Counter()
        if pod.address not in self._rules:
            return counts
        own = _name(Peer.of(pod.tree, pod.address))
        for direction, name in REFUSED.items():
            listed = run(*pod.enter, _nft(), "--json", "--numeric", "list", "set", "ip", TABLE, name)
            (found,) = [entry["set"] for entry in json.loads(listed)["nftables"] if "set" in entry]
            for entry in found.get("elem") or ():
                address, protocol, port = entry["elem"]["val"]["concat"]
                other = self._names.get(address, address)
                source, target = (other, own) if direction == "Ingress" else (own, other)
                what = f"{source} to {target}, {_PROTOCOLS.get(protocol, protocol)} {port or ''}".rstrip()
                counts[what] += entry["elem"]["counter"]["packets"]
        return counts


def _nft() -> str:
    """Path of nft; empty when it is not there."""
    return shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:{_FOLDERS}") or ""


def _name(peer: Peer) -> str:
    return f"{peer.namespace}/{peer.name}"
