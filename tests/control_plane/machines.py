"""Machines of a list of capacities that come and go, and the pods on them."""

from collections.abc import Mapping

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, Object, until
from rehearsal.nodes.shapes import needs_accelerators
from rehearsal.session import Rehearsal
from rehearsal.stock import CAPACITIES, QUEUED_FLEX_START, capacity_of

TIMEOUT = 120.0
# The status of a pod whose node the platform takes back. Its Job does not count it.
PREEMPTED: Object = {
    "phase": "Failed",
    "reason": "Terminated",
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
}


class Scene:
    """A stack whose job has pods that need each other.

    Args:
        stack: The stack, which is up.
        plane: The control plane.
        size: Number of these pods.
    """

    def __init__(self, stack: Rehearsal, plane: ControlPlane, size: int = 2) -> None:
        self.stack, self.plane, self.api = stack, plane, plane.api
        self._size = size
        assert stack.cluster
        self._stock = stack.cluster.nodes.stock

    def offer(self, machines: Mapping[str, int]) -> None:
        """Says how many machines the platform has of each capacity: none of a capacity that is missing."""
        for capacity in (*CAPACITIES, QUEUED_FLEX_START):
            self._stock.set(capacity, machines.get(capacity, 0))

    def stands_on(self) -> list[str]:
        """The capacity of every pod that has a node."""
        nodes = {node["metadata"]["name"]: node for node in self.api.list("v1", "Node")}
        names = [pod["spec"].get("nodeName") for pod in pods_of(self.api)]
        return [capacity_of(nodes[name]["metadata"]["labels"]) for name in names if name in nodes]

    def comes_to(self, capacity: str) -> None:
        """Waits until all pods have nodes of a capacity. On the way none may stand on two."""

        def arrived() -> bool:
            places = self.stands_on()
            assert len(set(places)) <= 1, f"pods stand on {places}"
            return places == [capacity] * self._size

        until(lambda: f"{capacity}, after:\n{self.plane.capacity_keeper.log()}", arrived, TIMEOUT)

    def lose(self, capacity: str, count: int = 1) -> None:
        """Takes nodes of a capacity away, with their pods."""
        nodes = [node for node in self.api.list("v1", "Node") if self._is_on(node, capacity)]
        for node in nodes[:count]:
            name = node["metadata"]["name"]
            self.api.delete(node)
            for pod in pods_of(self.api):
                if pod["spec"].get("nodeName") == name:
                    self.api.patch(pod, {"status": PREEMPTED}, "status")

    @staticmethod
    def _is_on(node: Object, capacity: str) -> bool:
        labels = node["metadata"]["labels"]
        return "cloud.google.com/gke-accelerator" in labels and capacity_of(labels) == capacity


def pods_of(api: Api) -> list[Object]:
    """The pods with accelerators that have not ended, and that nobody has deleted."""
    pods = [pod for pod in api.list("v1", "Pod") if needs_accelerators(pod)]
    living = [pod for pod in pods if pod["status"].get("phase") != "Failed"]
    return [pod for pod in living if "deletionTimestamp" not in pod["metadata"]]
