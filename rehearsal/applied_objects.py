"""The fake Kubernetes provider that writes its objects to a real API server."""

from collections.abc import Mapping
from typing import Any, Final

from cloud.kubernetes import CLUSTER_SCOPED
from rehearsal.fake_cloud import CLUSTER, FakeCloud, Rejected
from rehearsal.fake_kubernetes import FakeKubernetes
from rehearsal.fake_provider import Inputs, Outputs, Resource
from rehearsal.faults import Faults
from rehearsal.live_cluster import LiveCluster
from rehearsal.rules.kinds import RELEASE

_IDENTITY: Final = ("uid", "creationTimestamp", "generation")


class ApplyingKubernetes(FakeKubernetes):
    """The `kubernetes` provider over a `FakeCloud` and a control plane.

    The control plane takes the place of the stack's GKE cluster, whatever address the kubeconfig has.

    Args:
        cloud: What exists; the objects are written down there too, for resources that refer to them.
        faults: Operations that are to fail.
        cluster: Where the objects go.
    """

    def __init__(self, cloud: FakeCloud, faults: Faults, cluster: LiveCluster) -> None:
        super().__init__(cloud, faults)
        self._cluster = cluster
        self._written: dict[tuple[str, str, str], Any] = {}

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """Writes the object and waits until it is ready; the outputs are what the API server then has."""
        if len(list(self.cloud.of_type(CLUSTER))) > 1:
            raise Rejected("the stack has several clusters, and a local control plane can be one only")
        item_id, outputs = self.outputs(resource, inputs)
        if resource.type == RELEASE:
            self._cluster.install(inputs)
            return item_id, outputs, ""
        live, lacks = self._cluster.write(_tree(inputs), new=new, force=_forces(resource))
        self._written[self.cluster(resource), resource.type, item_id] = _projected(live, inputs)
        outputs["metadata"] |= {key: live["metadata"][key] for key in _IDENTITY if key in live["metadata"]}
        if live.get("status"):
            outputs["status"] = live["status"]
        return item_id, outputs, lacks

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes the object and waits until it is gone."""
        item = self.find(resource, item_id)
        if item:
            self.reached(resource)
            if resource.type == RELEASE:
                self._cluster.plane.kueue.uninstall()
            else:
                self._cluster.delete(_tree(item.inputs))
        super().delete(resource, item_id)

    def read(self, resource: Resource, item_id: str) -> tuple[Inputs, Outputs] | None:
        """The present values of what the program states; what others add, such as a status, is no drift."""
        item = self.find(resource, item_id)
        if item is None:
            return None
        if resource.type == RELEASE:
            return item.inputs, item.outputs
        live = self._cluster.api.get(_tree(item.inputs))
        if live is None:
            return None
        then, now = self._written[item.key], _projected(live, item.inputs)
        if then == now:
            return item.inputs, item.outputs
        drifted = _drifted(item.inputs, then, now)
        return drifted, {**item.outputs, **drifted}


def _forces(resource: Resource) -> bool:
    """Whether the program's provider takes over what others have written; the engine hands on texts."""
    return str(resource.config.get("enablePatchForce")).lower() == "true"


def _tree(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The object in a resource's inputs; in the namespace `default`, where it needs one and names none."""
    tree = {key: value for key, value in inputs.items() if key != "status" and not key.startswith("__")}
    metadata = dict(tree.get("metadata") or {})
    if tree["kind"] not in CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    return {**tree, "metadata": metadata}


def _projected(live: Any, stated: Any) -> Any:
    """The live values of the fields that are stated, spelt as the API server spells them."""
    if isinstance(stated, Mapping):
        found = live if isinstance(live, Mapping) else {}
        return {key: _projected(found.get(key), value) for key, value in stated.items()}
    # Like the real provider, which does not see what somebody appended.
    if isinstance(stated, list) and isinstance(live, list) and len(stated) <= len(live):
        return [_projected(one, other) for one, other in zip(live, stated, strict=False)]
    return live


def _drifted(stated: Any, then: Any, now: Any) -> Any:
    """The stated values, but for those that have changed since they were written."""
    if then == now:
        return stated
    if isinstance(stated, Mapping) and isinstance(then, Mapping) and isinstance(now, Mapping):
        return {key: _drifted(value, then.get(key), now.get(key)) for key, value in stated.items()}
    return now
