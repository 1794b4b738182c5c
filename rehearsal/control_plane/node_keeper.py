"""Adds and removes simulated nodes as GKE does: for node pools, and for pods that no node can run."""

import threading
from typing import Final

from rehearsal.control_plane import nodes
from rehearsal.control_plane.api import Api, ApiError, Object, condition
from rehearsal.control_plane.nodes import POOL_LABEL, Shape
from rehearsal.fake_cloud import CLUSTER, NODE_POOL, FakeCloud, Item

_SECONDS: Final = 0.2


class NodeKeeper:
    """Follows the node pools of a cloud and the pods that wait for a node, in its own thread.

    In a Standard cluster a node pool has its minimum of nodes, and more up to its maximum if pods wait. On
    Autopilot a pod that waits gets a node. Nodes are only removed with their pool, or with the cluster.

    Args:
        api: The API server.
        cloud: The fake cloud.

    Attributes:
        added: The number of nodes that were added.
    """

    def __init__(self, api: Api, cloud: FakeCloud) -> None:
        self._api = api
        self._cloud = cloud
        self._lock = threading.Lock()
        self._shapes: dict[str, Shape] = {}
        self._counts: dict[str, int] = {}
        self._asked: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        self.added = 0

    def stop(self) -> None:
        """Ends the thread. The nodes stay."""
        self._stopped.set()
        self._thread.join()

    def clear(self) -> None:
        """Removes all nodes, as the deletion of their cluster does."""
        with self._lock:
            for shape in list(self._shapes.values()):
                self._remove(shape)

    def _keep(self) -> None:
        while not self._stopped.wait(_SECONDS):
            try:
                with self._lock:
                    self._follow()
            except (ApiError, ConnectionError):
                continue  # the control plane is being stopped

    def _follow(self) -> None:
        cluster = next(self._cloud.of_type(CLUSTER), None)
        if cluster is None:
            return
        if not cluster.inputs.get("enableAutopilot"):
            self._follow_pools(str(cluster.outputs["location"]))
        for pod in self._api.list("v1", "Pod"):
            if _waits_for_a_node(pod) and pod["metadata"]["uid"] not in self._asked:
                # A pod gets one node. If no machine fits, the pod's own conditions say so.
                if shape := self._shape_for(pod, cluster):
                    self._shapes[shape.pool] = shape
                    self._add(shape)
                self._asked.add(pod["metadata"]["uid"])

    def _follow_pools(self, location: str) -> None:
        pools = ((str(item.outputs["name"]), item.inputs) for item in self._cloud.of_type(NODE_POOL))
        shapes = {name: nodes.shape_of_pool(inputs, name, location) for name, inputs in pools}
        for name in self._shapes.keys() - shapes.keys():
            self._remove(self._shapes.pop(name))
        self._shapes = shapes
        for shape in shapes.values():
            while self._counts.get(shape.pool, 0) < shape.least:
                self._add(shape)

    def _shape_for(self, pod: Object, cluster: Item) -> Shape | None:
        if cluster.inputs.get("enableAutopilot"):
            return nodes.shape_for_pod(pod, str(cluster.outputs["location"]))
        fitting = (shape for shape in self._shapes.values() if shape.suits(pod))
        return next((shape for shape in fitting if self._counts.get(shape.pool, 0) < shape.most), None)

    def _add(self, shape: Shape) -> None:
        index = self._counts.get(shape.pool, 0)
        self._api.create(shape.node(index))
        self._counts[shape.pool] = index + 1
        self.added += 1

    def _remove(self, shape: Shape) -> None:
        self._api.request("DELETE", "/api/v1/nodes", label_selector=f"{POOL_LABEL}={shape.pool}")
        self._counts.pop(shape.pool, None)


def _waits_for_a_node(pod: Object) -> bool:
    scheduled = condition(pod, "PodScheduled")
    return scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
