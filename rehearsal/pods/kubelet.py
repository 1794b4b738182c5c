"""Runs the pods of all simulated nodes."""

import ssl
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import ApiError, Object
from rehearsal.control_plane.kwok import KUBELET_PORT
from rehearsal.pods.firewall import Firewall
from rehearsal.pods.konnectivity import Konnectivity
from rehearsal.pods.network import write_hosts
from rehearsal.pods.pod import Machine, Pod
from rehearsal.stand_ins.loopback import LoopbackServer, Request

_SECONDS: Final = 0.3
# Seconds of a pod on a spot node that is lost: https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
_SHUTDOWN_GRACE: Final = 25.0


class Kubelet(LoopbackServer):
    """Runs the pods that are bound to nodes, and serves their logs to the API server.

    Args:
        plane: The control plane.
        machine: The machine that every node is.
        hosts: The hosts file of the network.

    Attributes:
        firewall: The firewall, which enforces the network policies.
    """

    host, port = "0.0.0.0", KUBELET_PORT

    def __init__(self, plane: ControlPlane, machine: Machine, hosts: Path) -> None:
        self._api, self._machine, self._hosts = plane.api, machine, hosts
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(plane.keys / "admin.crt", plane.keys / "admin.key")
        self.firewall = Firewall(self._api)
        self._konnectivity = Konnectivity()
        self._pods: dict[str, Pod] = {}
        self._lost: set[str] = set()
        self._stopped = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        """Starts to run pods."""
        self._konnectivity.__enter__()
        self._keeper.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        """Stops every pod."""
        super().__exit__()
        self._stopped.set()
        self._keeper.join()
        self._konnectivity.__exit__()
        for pod in self._pods.values():
            pod.close()

    def serve(self, request: Request) -> None:
        """Answers a request for a log, `/containerLogs/NAMESPACE/POD/CONTAINER?tailLines=N`."""
        url = urlsplit(request.path)
        pod, container = self.pod(url.path.split("/")[3]), url.path.split("/")[4]
        if pod is None:
            request.answer(404, b"")
            return
        lines = self.log(pod.tree, container).splitlines(keepends=True)
        count = parse_qs(url.query).get("tailLines")
        tail = lines[-int(count[0]) :] if count else lines
        request.answer(200, "".join(tail).encode())

    def at(self, address: str) -> Pod | None:
        """The pod with an address."""
        return next((pod for pod in list(self._pods.values()) if pod.address == address), None)

    def pod(self, name: str) -> Pod | None:
        """The pod with a name."""
        return next((pod for pod in list(self._pods.values()) if pod.tree["metadata"]["name"] == name), None)

    def log(self, tree: Object, container: str = "") -> str:
        """The output of a container since its first start. By default, it is the pod's first container."""
        file = self._machine.log(tree, container or tree["spec"]["containers"][0]["name"])
        return file.read_text(errors="replace") if file.exists() else ""

    def refused(self) -> Counter[str]:
        """The number of packets that network policies have refused, by source, target, protocol and port."""
        return self.firewall.refused(list(self._pods.values()))

    def lose(self, node: str) -> None:
        """Stops the pods of a node and removes the node.

        Kubernetes' garbage collector then deletes the pods' objects.
        """
        pods = [pod for pod in self._pods.values() if pod.tree["spec"]["nodeName"] == node]
        self._lost.add(node)
        for pod in pods:
            pod.leave(min(_SHUTDOWN_GRACE, pod.tree["spec"]["terminationGracePeriodSeconds"]), "Terminated")
        for pod in pods:
            pod.thread.join()
        self._api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})

    def _keep(self) -> None:
        while not self._stopped.wait(_SECONDS):
            with suppress(ApiError, ConnectionError):  # the API server may be gone for a while
                self._follow(self._api.list("v1", "Pod"))
                names = pod_names(
                    self._api.list("discovery.k8s.io/v1", "EndpointSlice"),
                    [pod.admitted for pod in self._pods.values()],
                )
                write_hosts(self._hosts, names)
                for pod in self._pods.values():
                    pod.resolve(names)

    def _follow(self, trees: list[Object]) -> None:
        bound = {tree["metadata"]["uid"]: tree for tree in trees if tree["spec"].get("nodeName")}
        for identity in self._pods.keys() - bound.keys():
            self.firewall.forget(self._pods[identity])
            self._pods.pop(identity).close()
        for identity, tree in bound.items():
            lost = tree["spec"]["nodeName"] in self._lost or "podIP" in tree.get("status", {})
            if identity not in self._pods and not lost:
                self._pods[identity] = Pod(self._api, self._admitted(tree), self._machine)
            if pod := self._pods.get(identity):
                pod.tree = tree
                if "deletionTimestamp" in tree["metadata"]:
                    pod.leave(float(tree["metadata"].get("deletionGracePeriodSeconds") or 0))
        self.firewall.follow(self._pods.values())
        for pod in self._pods.values():
            pod.connected.set()

    def _admitted(self, tree: Object) -> Object:
        stay = [pod for pod in self._pods.values() if "deletionTimestamp" not in pod.tree["metadata"]]
        return self._machine.admit(tree, [pod.admitted for pod in stay])


def pod_names(slices: Iterable[Object], pods: Iterable[Object]) -> list[tuple[str, str]]:
    """The names of Services and their pods in the cluster's DNS, by their addresses.

    Args:
        slices: The EndpointSlices of the API server.
        pods: Pods after admission. A webhook may have given them a host name.
    """
    hostnames = {
        (pod["metadata"]["uid"], pod["spec"].get("subdomain")): pod["spec"].get("hostname") for pod in pods
    }
    entries: list[tuple[str, str]] = []
    for tree in slices:
        metadata = tree["metadata"]
        service = (metadata.get("labels") or {}).get("kubernetes.io/service-name", "")
        space = metadata["namespace"]
        suffixes = ("", f".{space}", f".{space}.svc", f".{space}.svc.cluster.local")
        for end in tree.get("endpoints") or ():
            if not end["conditions"].get("ready"):
                continue
            pod = (end.get("targetRef") or {}).get("uid")
            hostname = end.get("hostname") or hostnames.get((pod, service))
            owners = [service, f"{hostname}.{service}"] if hostname else [service]
            names = " ".join(owner + suffix for owner in owners for suffix in suffixes)
            entries += [(address, names) for address in end["addresses"]]
    return sorted(entries)
