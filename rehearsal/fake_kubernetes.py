"""The stand-in for the Kubernetes provider.

Naming, replacement and awaiting as pulumi-kubernetes 4 does them; admission as the API server does.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

from cloud import records
from cloud.kubernetes import CLUSTER_SCOPED, CUSTOM, is_awaited
from cloud.record import Problem
from engine.plan import AUTONAMED, changed_paths
from rehearsal import kueue, rules
from rehearsal.clock import Clock
from rehearsal.fake_cloud import CLUSTER, FakeCloud, Item, Rejected
from rehearsal.fake_provider import Asked, FakeProvider, Naming
from rehearsal.replacement import Changes
from rehearsal.rules import pod_security
from rehearsal.rules.kinds import RELEASE

_RANDOM_DIGITS: Final = 8
_JOBS: Final = ("Job", "RayJob")
_NAMESPACE: Final = "kubernetes:core/v1:Namespace"

_STATUS: Final[Mapping[str, dict[str, Any]]] = {
    "Namespace": {"phase": "Active"},
    "RayCluster": {"state": "ready"},
    "RayJob": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
}


class FakeKubernetes(FakeProvider):
    """The `kubernetes` provider over a `FakeCloud`."""

    def __init__(self, cloud: FakeCloud, clock: Clock) -> None:
        super().__init__("kubernetes", metadata.version("pulumi-kubernetes"), cloud, clock)

    def named(self, asked: Asked, news: dict[str, Any], olds: Mapping[str, Any], propose: Naming) -> None:
        """An automatic name is marked by an annotation and kept for good; a release states its name."""
        if asked.type == RELEASE:
            return
        metadata = news.setdefault("metadata", {})
        if not isinstance(metadata, dict) or metadata.get("name") or metadata.get("generateName"):
            return
        old = olds.get("metadata") or {}
        kept = old.get("name") if AUTONAMED in (old.get("annotations") or {}) else None
        if kept or propose.enabled:
            metadata["name"] = kept or propose.name(_RANDOM_DIGITS, 63)
            metadata["annotations"] = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}

    def problems(self, asked: Asked, inputs: Mapping[str, Any]) -> Iterable[Problem]:
        """Schema and rules of the kind."""
        return rules.problems(asked.type, inputs)

    def changes(self, asked: Asked, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Changes:
        """Replacement of what is immutable; a fixed name must be free before the new object takes it."""
        record = records.every().get(asked.type, CUSTOM)
        paths = list(changed_paths(olds, news))
        replacing = [path for path in paths if record.replaces(path, olds, news)]
        updating = [path for path in paths if path not in replacing]
        annotations = (news.get("metadata") or {}).get("annotations") or {}
        same_name = all(path not in replacing for path in ("metadata.name", "metadata.namespace"))
        return Changes(
            updating, replacing, delete_first=bool(replacing) and same_name and AUTONAMED not in annotations
        )

    def outputs(self, asked: Asked, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """What the API server computes; a job ends as the cloud has it."""
        item_id, outputs = computed_outputs(asked, inputs)
        if inputs.get("kind") == "RayJob" and self.cloud.outcome == "Failed":
            outputs["status"] = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"}
            if is_awaited(inputs) and not accepts(inputs, "Failed"):
                raise Rejected(f"timed out waiting for RayJob {item_id}: it has failed")
        if inputs.get("kind") == "Job" and self.cloud.outcome == "Failed" and is_awaited(inputs):
            raise Rejected(f"Job {item_id} failed: BackoffLimitExceeded")
        return item_id, outputs

    def cluster(self, asked: Asked) -> str:
        """The cluster that the provider instance is configured for."""
        return str(asked.config.get("clusterIdentifier") or asked.config.get("kubeconfig") or "")

    def admit(self, asked: Asked, inputs: Mapping[str, Any]) -> None:
        """The cluster answers, the namespace is there, and so is everything the object mounts."""
        cluster = self._reachable(asked)
        kind = str(inputs.get("kind") or asked.type.split(":")[-1])
        namespace = (inputs.get("metadata") or {}).get("namespace") or inputs.get("namespace") or "default"
        if kind not in CLUSTER_SCOPED and namespace not in ("default", "kube-system"):
            self._admit_to(str(namespace), cluster, inputs)
        if asked.type == RELEASE:
            kueue.require_nodes(self.cloud, cluster)
        else:
            kueue.require(self.cloud, cluster, inputs)
        if kind in _JOBS:
            self.cloud.run_job()

    def _admit_to(self, namespace: str, cluster: str, inputs: Mapping[str, Any]) -> None:
        home = self.cloud.find((cluster, _NAMESPACE, namespace))
        if home is None:
            raise Rejected(f'namespaces "{namespace}" not found')
        for path, reason in pod_security.problems(pod_security.level_of(home.inputs), inputs):
            raise Rejected(f"{path}: {reason}")

    def release(self, asked: Asked, item: Item) -> bool:
        """Any object may go, as long as the cluster answers."""
        self._reachable(asked)
        return True

    def _reachable(self, asked: Asked) -> str:
        """The cluster's identity; raises Rejected when there is no such cluster."""
        kubeconfig = str(asked.config.get("kubeconfig") or "")
        for cluster in self.cloud.of_type(CLUSTER):
            if (
                self.cluster(asked) == cluster.outputs["selfLink"]
                and cluster.outputs["endpoint"] in kubeconfig
            ):
                return self.cluster(asked)
        raise Rejected("configured Kubernetes cluster is unreachable: unable to load schema information")


def accepts(inputs: Mapping[str, Any], status: str) -> bool:
    """Whether the wait also ends with `status`: the expression then names it."""
    return status in json.dumps(inputs["metadata"]["annotations"]["pulumi.com/waitFor"])


def computed_outputs(asked: Asked, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Id and properties of an object or a release that is as it should be; the same for the same inputs."""
    if asked.type == RELEASE:
        return _release_outputs(asked.name, inputs)
    metadata: dict[str, Any] = {"name": asked.name, **(inputs.get("metadata") or {})}
    kind = str(inputs.get("kind") or asked.type.split(":")[-1])
    if kind not in CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    path = "/".join(str(metadata[key]) for key in ("namespace", "name") if key in metadata)
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{path}"))
    metadata |= {"uid": uid, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"status": _STATUS[kind]} if kind in _STATUS else {}
    return path, {**inputs, "metadata": metadata, **status}


def _release_outputs(name: str, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    release = str(inputs.get("name") or name)
    namespace = str(inputs.get("namespace") or "default")
    status = {"name": release, "namespace": namespace, "revision": 1, "status": "deployed"}
    return f"{namespace}/{release}", {"name": release, "namespace": namespace, **inputs, "status": status}
