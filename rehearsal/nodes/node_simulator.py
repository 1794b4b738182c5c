"""Adds and removes simulated nodes as GKE does: for node pools, and for pods that no node can run."""

import threading
from collections import Counter
from collections.abc import Set
from dataclasses import replace
from typing import Final

from rehearsal.control_plane import network_cards
from rehearsal.control_plane.api import Api, ApiError, Object, condition
from rehearsal.fakes.cloud import CLUSTER, NODE_POOL, FakeCloud, Item
from rehearsal.nodes import compute_classes, node_requests
from rehearsal.nodes import shapes as nodes
from rehearsal.nodes.node_requests import REQUEST_LABEL, NodeRequest
from rehearsal.nodes.nodes_of_pods import NodesOfPods
from rehearsal.nodes.shapes import POOL_LABEL, Shape
from rehearsal.stock import QUEUED_FLEX_START, Stock, capacity_of

_SECONDS: Final = 0.2
# The API server's codes for an object that is wrong. Others come from objects that others change or delete.
_WRONG: Final = (400, 422)
# Looks at a node of a class without pods, until it goes. GKE's autoscaler waits ten minutes.
_EMPTY_LOOKS: Final = 10


class NodeSimulator:
    """Follows the node pools of a cloud and the pods that wait for a node, in its own thread.

    In a Standard cluster a node pool has its minimum of nodes, and more up to its maximum if pods wait. On
    Autopilot a pod that waits gets a node. Nodes are removed with their pool, or with the cluster. Those of a
    class or of a request are also removed when they are empty.

    Args:
        api: The API server.
        cloud: The fake cloud.

    Attributes:
        added: The number of nodes that were added.
        stock: The machines with accelerators that the platform has.
    """

    def __init__(self, api: Api, cloud: FakeCloud) -> None:
        self._api = api
        self._cloud = cloud
        self._lock = threading.Lock()
        self._shapes: dict[str, Shape] = {}
        self._counts: dict[str, int] = {}
        self._nodes_of_pods = NodesOfPods()
        self._empty: Counter[str] = Counter()
        self._dry: dict[str, list[str]] = {}
        self.stock = Stock()
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
            except ConnectionError:
                continue  # the control plane is being stopped
            except ApiError as error:
                if error.code in _WRONG:
                    raise

    def _follow(self) -> None:
        cluster = next(self._cloud.of_type(CLUSTER), None)
        if cluster is None:
            return
        if not cluster.inputs.get("enableAutopilot"):
            self._follow_pools(str(cluster.outputs["location"]))
        pods = self._api.list("v1", "Pod")
        requests = node_requests.requests_in(self._api)
        for request in requests:
            self._fulfil(request)
        for pod in pods:
            if _waits_for_a_node(pod) and not self._nodes_of_pods.has_one(pod, pods):
                self._serve(pod, cluster)
        self._remove_empty(pods, {request.name for request in requests if request.keeps_nodes})

    def _serve(self, pod: Object, cluster: Item) -> None:
        """Creates one node for a pod. It waits for as long as the platform has no machine for it.

        If no machine fits, the pod's own conditions say so.
        """
        shapes = self._shapes_for(pod, cluster)
        dry = []
        for shape in shapes:
            if not shape.machine.accelerator or self.stock.take(capacity_of(shape.labels)):
                self._shapes[shape.pool] = shape
                self._nodes_of_pods.note(pod, self._add(shape))
                break
            dry.append(shape)
        self._tell(compute_classes.class_of(pod), dry)
        waits_on = compute_classes.class_of(pod) or node_requests.is_of_a_request(pod)
        if not shapes and not waits_on:
            self._nodes_of_pods.note(pod, "")

    def _fulfil(self, request: NodeRequest) -> None:
        """Creates all nodes of a request, or none of them."""
        if not request.waits:
            request.follow()
            return
        request.accept()
        pods = request.pods()
        fitting = (shape for shape in self._shapes.values() if shape.queued and shape.suits(pods[0]))
        shape = next(fitting, None)
        if shape is None or self._size(shape) + len(pods) > shape.most:
            return
        if self.stock.take(QUEUED_FLEX_START, len(pods)):
            labels = {**shape.labels, node_requests.REQUEST_LABEL: request.name}
            for _ in pods:
                self._add(replace(shape, labels=labels))
            request.provide(shape.pool)

    def _tell(self, name: str, dry: list[Shape]) -> None:
        """Writes into a class which of its rules have no machines."""
        pools = [shape.pool for shape in dry]
        if name and self._dry.get(name, []) != pools:
            self._dry[name] = pools
            self._api.patch(
                compute_classes.tree_of(name), {"status": compute_classes.status_of(dry)}, "status"
            )

    def _remove_empty(self, pods: list[Object], booked: Set[str]) -> None:
        """Removes the nodes of classes and of requests that no pod has run on for some time.

        Args:
            booked: Names of the requests that keep their nodes.
        """
        used = {pod["spec"].get("nodeName") for pod in pods}
        classes = {
            compute_class["metadata"]["name"]
            for compute_class in self._api.list(*compute_classes.KIND)
            if not compute_classes.keeps_empty(compute_class)
        }
        for node in self._api.list("v1", "Node"):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            if labels.get(compute_classes.CLASS_LABEL) not in classes and REQUEST_LABEL not in labels:
                continue
            kept = name in used or labels.get(REQUEST_LABEL) in booked
            self._empty[name] = 0 if kept else self._empty[name] + 1
            if self._empty[name] >= _EMPTY_LOOKS:
                self._api.delete(node)
                if REQUEST_LABEL not in labels:  # those of a request go to somebody else
                    self.stock.give_back(capacity_of(labels))
                del self._empty[name]

    def _follow_pools(self, location: str) -> None:
        pools = ((str(item.outputs["name"]), item.inputs) for item in self._cloud.of_type(NODE_POOL))
        shapes = {name: nodes.shape_of_pool(inputs, name, location) for name, inputs in pools}
        for name in self._shapes.keys() - shapes.keys():
            self._remove(self._shapes.pop(name))
        self._shapes = shapes
        for shape in shapes.values():
            while self._counts.get(shape.pool, 0) < shape.least:
                self._add(shape)

    def _shapes_for(self, pod: Object, cluster: Item) -> list[Shape]:
        """The shapes that a node for the pod can have, in the order in which they are tried."""
        location = str(cluster.outputs["location"])
        if name := compute_classes.class_of(pod):
            compute_class = self._api.get(compute_classes.tree_of(name))
            return [*compute_classes.shapes_for(pod, compute_class, location)] if compute_class else []
        if cluster.inputs.get("enableAutopilot"):
            shape = nodes.shape_for_pod(pod, location)
            return [shape] if shape else []
        if node_requests.is_of_a_request(pod):
            return []
        fitting = (shape for shape in self._shapes.values() if not shape.queued and shape.suits(pod))
        return [shape for shape in fitting if self._size(shape) < shape.most]

    def _size(self, shape: Shape) -> int:
        """The number of nodes that a pool has now."""
        return len(self._api.list("v1", "Node", labels={POOL_LABEL: shape.pool}))

    def _add(self, shape: Shape) -> str:
        """Creates a node, and returns its name."""
        index = self._counts.get(shape.pool, 0)
        node = self._api.create(shape.node(index))
        if shape.cards:
            self._api.create(network_cards.slice_of(node, shape.cards))
        self._counts[shape.pool] = index + 1
        self.added += 1
        return str(node["metadata"]["name"])

    def _remove(self, shape: Shape) -> None:
        self._api.request("DELETE", "/api/v1/nodes", label_selector=f"{POOL_LABEL}={shape.pool}")
        self._counts.pop(shape.pool, None)


def _waits_for_a_node(pod: Object) -> bool:
    scheduled = condition(pod, "PodScheduled")
    return scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
