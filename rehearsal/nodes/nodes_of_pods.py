"""Which simulated node was created for which pod."""

from collections.abc import Iterable

from rehearsal.control_plane.api import Object
from rehearsal.nodes import shapes as nodes


class NodesOfPods:
    """The nodes that were created for pods, so that no pod gets two."""

    def __init__(self) -> None:
        # By the pod's uid. Empty if no machine fits.
        self._nodes: dict[str, str] = {}

    def note(self, pod: Object, node: str) -> None:
        """Notes the node that was created for a pod. Its name is empty if no machine fits the pod."""
        self._nodes[_uid(pod)] = node

    def has_one(self, pod: Object, pods: Iterable[Object]) -> bool:
        """Whether a pod that waits needs no other node.

        The scheduler may put a pod on the node of another one. These two then exchange their nodes.

        Args:
            pod: The pod.
            pods: All pods.
        """
        uid = _uid(pod)
        if not self._nodes.get(uid) or not nodes.needs_accelerators(pod):
            return uid in self._nodes
        users = {other["spec"].get("nodeName"): _uid(other) for other in pods}
        while (user := users.get(self._nodes[uid])) and self._nodes.get(user) != self._nodes[uid]:
            self._nodes[uid], self._nodes[user] = self._nodes.get(user, ""), self._nodes[uid]
        return bool(self._nodes[uid]) and not user


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
