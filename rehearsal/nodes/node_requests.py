"""Requests for all nodes of a job at once, as GKE's autoscaler serves them.

The published autoscaler has these rules (GoogleCloudPlatform/cluster-autoscaler, 2026-08-21,
pkg/provisioningrequests):

- A request gets nodes of one pool in one zone, all of them or none (scaleup/reasons/reasons.go).
- It waits for them as long as it has to. Meanwhile it is accepted and not provisioned.
- The nodes carry the name of their request. Pods of a request make no other nodes come
  (processors/pod_list_processor.go).
- For ten minutes the nodes are kept for their pods, then the booking expires (provreqstate/state.go).
- After the time that the request states, the nodes are gone and the capacity counts as revoked
  (reconciler/provisioning_request_finalizer.go). Here a test says when.

A request for which the pool has no room waits here. GKE lets it fail, and Kueue makes another one.
"""

import hashlib
from datetime import UTC, datetime
from typing import Any, Final

from rehearsal.control_plane.api import Api, ApiError, Object, condition, is_true

KIND: Final = ("autoscaling.x-k8s.io/v1", "ProvisioningRequest")
REQUEST_LABEL: Final = "autoscaling.gke.io/provisioning-request"
_CLASS: Final = "queued-provisioning.gke.io"
_CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
# Lengths of the parts of a resize request's name
# (pkg/cloudprovider/gke/gceclient/resizerequest/resize_request.go).
_SPACE_LENGTH, _NAME_LENGTH, _DIGEST_LENGTH = 20, 20, 16
# Ten minutes on GKE. Here Kueue and the scheduler may need some seconds of them.
_BOOKING_SECONDS: Final = 12.0


class NodeRequest:
    """A `ProvisioningRequest`.

    Args:
        api: The API server.
        tree: The request.
    """

    def __init__(self, api: Api, tree: Object) -> None:
        self._api, self._tree = api, tree

    @property
    def name(self) -> str:
        """The name that its nodes carry: that of its resize request in Compute Engine."""
        space, name = self._tree["metadata"]["namespace"], self._tree["metadata"]["name"]
        digest = hashlib.sha256(f"{space}/{name}".encode()).hexdigest()
        return f"gke-{space[:_SPACE_LENGTH]}-{name[:_NAME_LENGTH]}-{digest[:_DIGEST_LENGTH]}"

    @property
    def waits(self) -> bool:
        """Whether it has no nodes yet."""
        return not is_true(self._tree, "Provisioned") and not is_true(self._tree, "Failed")

    @property
    def keeps_nodes(self) -> bool:
        """Whether its nodes are kept, also if no pod has come to them yet."""
        return is_true(self._tree, "Provisioned") and not condition(self._tree, "BookingExpired")

    def pods(self) -> list[Object]:
        """A pod for each node that it needs, as the request describes them."""
        space = self._tree["metadata"]["namespace"]
        pods: list[Object] = []
        for group in self._tree["spec"]["podSets"]:
            metadata = {"name": group["podTemplateRef"]["name"], "namespace": space}
            template = self._api.get({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata})
            # The autoscaler adds the toleration of the pool's taint, and ignores this label.
            spec = (template or {})["template"]["spec"]
            selector = {**(spec.get("nodeSelector") or {})}
            selector.pop(REQUEST_LABEL, None)
            pods += [{"spec": {**spec, "nodeSelector": selector}}] * int(group["count"])
        return pods

    def accept(self) -> None:
        """Says that it waits for machines, once."""
        if not condition(self._tree, "Accepted"):
            message = "Provisioning Request wasn't provisioned yet."
            self._say(Accepted=("True", ""), Provisioned=("False", message))

    def provide(self, pool: str) -> None:
        """Says that its nodes are there."""
        details = {"NodePoolName": pool, "ResizeRequestName": self.name}
        self._say(details, Provisioned=("True", "Provisioning Request was successfully provisioned."))

    def follow(self) -> None:
        """Lets the booking expire when its time has come."""
        since = condition(self._tree, "Provisioned").get("lastTransitionTime")
        if self.waits or not since or condition(self._tree, "BookingExpired"):
            return
        age = datetime.now(UTC) - datetime.fromisoformat(str(since))
        if age.total_seconds() >= _BOOKING_SECONDS:
            self._say(BookingExpired=("True", "Capacity Booking for the Provisioning Request has expired."))

    def revoke(self) -> None:
        """Says that its nodes have reached the end of their time."""
        self._say(CapacityRevoked=("True", "Capacity for the Provisioning Request was revoked."))

    def _say(self, details: Object | None = None, **conditions: tuple[str, str]) -> None:
        new = [
            {
                "type": name,
                "status": status,
                "reason": name,
                "message": message,
                "lastTransitionTime": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            for name, (status, message) in conditions.items()
        ]
        old = (self._tree.get("status") or {}).get("conditions") or ()
        kept = [entry for entry in old if entry["type"] not in conditions]
        status: dict[str, Any] = {"conditions": [*kept, *new]}
        if details:
            status["provisioningClassDetails"] = details
        try:
            self._tree = self._api.patch(self._tree, {"status": status}, "status")
        except ApiError as error:
            if error.code != 404:
                raise


def requests_in(api: Api) -> list[NodeRequest]:
    """The requests of the cluster, the oldest first."""
    try:
        every = api.list(*KIND)
    except ApiError as error:
        if error.code != 404:
            raise
        return []  # the kind comes late
    trees = [tree for tree in every if tree["spec"]["provisioningClassName"] == _CLASS]
    trees.sort(key=lambda tree: tree["metadata"]["creationTimestamp"])
    return [NodeRequest(api, tree) for tree in trees]


def is_of_a_request(pod: Object) -> bool:
    """Whether a pod has its node by a request."""
    return _CONSUMES in (pod["metadata"].get("annotations") or {})
