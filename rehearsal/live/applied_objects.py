"""A fake Kubernetes provider that writes its objects to a real API server."""

from collections.abc import Mapping
from typing import Any, Final

from cloud.services.kubernetes import CLUSTER_SCOPED
from rehearsal.fakes.cloud import CLUSTER, FakeCloud, Rejected
from rehearsal.fakes.faults import Faults
from rehearsal.fakes.kubernetes import FakeKubernetes
from rehearsal.fakes.provider import Inputs, Outputs, Resource
from rehearsal.live.cluster import LiveCluster
from rehearsal.rules.kinds import RELEASE

_IDENTITY: Final = ("uid", "creationTimestamp", "generation")


class ApplyingKubernetes(FakeKubernetes):
    """The `kubernetes` provider over a `FakeCloud` and a control plane.

    The control plane replaces the stack's GKE cluster. The address in the kubeconfig does not matter.

    Args:
        cloud: The fake cloud. It has the objects too, for resources that refer to them.
        faults: Operations that fail on purpose.
        cluster: The cluster for the objects.
    """

    def __init__(self, cloud: FakeCloud, faults: Faults, cluster: LiveCluster) -> None:
        super().__init__(cloud, faults)
        self._cluster = cluster
        self._written: dict[tuple[str, str, str], Any] = {}

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """Writes the object and waits until it is ready. The outputs are the API server's."""
        if len(list(self.cloud.of_type(CLUSTER))) > 1:
            raise Rejected("the stack has several clusters, and a local control plane can be one only")
        item_id, outputs = self.outputs(resource, inputs)
        if resource.type == RELEASE:
            self._cluster.install(inputs)
            return item_id, outputs, ""
        live, not_ready = self._cluster.write(_tree(inputs), new=new, force=_forces(resource))
        self._written[self.cluster(resource), resource.type, item_id] = _projected(live, inputs)
        outputs["metadata"] |= {key: live["metadata"][key] for key in _IDENTITY if key in live["metadata"]}
        if live.get("status"):
            outputs["status"] = live["status"]
        return item_id, outputs, not_ready

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
        """The present values of the program's inputs. Fields that others add do not count."""
        item = self.find(resource, item_id)
        if item is None:
            return None
        if resource.type == RELEASE:
            return item.inputs, item.outputs
        live = self._cluster.api.get(_tree(item.inputs))
        if live is None:
            return None
        written, present = self._written[item.key], _projected(live, item.inputs)
        if written == present:
            return item.inputs, item.outputs
        drifted = _drifted(item.inputs, written, present)
        return drifted, {**item.outputs, **drifted}


def _forces(resource: Resource) -> bool:
    """Whether the provider resource takes over fields of other writers. The option comes as a text."""
    return str(resource.config.get("enablePatchForce")).lower() == "true"


def _tree(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The object in a resource's inputs. Without a namespace it is in `default`, if its kind needs one."""
    tree = {key: value for key, value in inputs.items() if key != "status" and not key.startswith("__")}
    metadata = dict(tree.get("metadata") or {})
    if tree["kind"] not in CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    return {**tree, "metadata": metadata}


def _projected(live: Any, stated: Any) -> Any:
    """The live values of the stated fields, in the API server's spelling."""
    if isinstance(stated, Mapping):
        fields = live if isinstance(live, Mapping) else {}
        return {key: _projected(fields.get(key), value) for key, value in stated.items()}
    # The real provider does not see what somebody has appended to a list.
    if isinstance(stated, list) and isinstance(live, list) and len(stated) <= len(live):
        return [_projected(live_item, item) for live_item, item in zip(live, stated, strict=False)]
    return live


def _drifted(stated: Any, written: Any, present: Any) -> Any:
    """The stated values. A value that has changed since it was written is the present one."""
    if written == present:
        return stated
    if isinstance(stated, Mapping) and isinstance(written, Mapping) and isinstance(present, Mapping):
        return {key: _drifted(value, written.get(key), present.get(key)) for key, value in stated.items()}
    return present
