"""The fake Kubernetes provider.

It names, replaces and waits as pulumi-kubernetes 4 does. It admits objects as the API server does.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from cloud.inputs import at
from cloud.record import Record
from cloud.services.kubernetes import CLUSTER_SCOPED, NAMESPACE, is_awaited, prepares
from engine.plan import AUTONAMED
from rehearsal.fakes.cloud import CLUSTER, Rejected
from rehearsal.fakes.faults import Operation
from rehearsal.fakes.provider import FakeProvider, Inputs, Outputs, Resource, automatic_name
from rehearsal.rules import kueue, pod_security
from rehearsal.rules.kinds import ALWAYS_THERE, RELEASE, namespace_of

_RANDOM_DIGITS: Final = 8
_JOBS: Final = ("Job", "RayJob")
# The provider's own message.
_NO_KIND: Final = (
    "creation of resource failed because the Kubernetes API server reported that the apiVersion for this "
    "resource does not exist. Verify that any required CRDs have been created"
)

_UNREACHABLE: Final = "configured Kubernetes cluster is unreachable"

_STATUS: Final[Mapping[str, dict[str, Any]]] = {
    "Namespace": {"phase": "Active"},
    "RayCluster": {"state": "ready"},
}
# The status that Ray's operator writes, by `FakeCloud.outcome`.
RAY_ENDS: Final[Mapping[str, dict[str, Any]]] = {
    "Complete": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
    "Failed": {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"},
    "Stopped": {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"},
    "Rejected": {"jobDeploymentStatus": "ValidationFailed", "message": "the name is no DNS label"},
}


class FakeKubernetes(FakeProvider):
    """The `kubernetes` provider over a `FakeCloud`."""

    package = "kubernetes"

    def name(self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str) -> Inputs:
        """As the provider does: an annotation marks an automatic name, which never changes.

        A Helm release has a name of its own.
        """
        metadata = news.get("metadata") or {}
        if resource.type == RELEASE or not isinstance(metadata, Mapping):
            return {}
        annotations = metadata.get("annotations") or {}
        if metadata.get("name") or metadata.get("generateName") or not isinstance(annotations, Mapping):
            return {}
        old_name = (olds.get("metadata") or {}).get("name") if _is_named_by_provider(olds) else None
        name = old_name or automatic_name(resource.name, seed, _RANDOM_DIGITS)
        return {"metadata": {**metadata, "name": name, "annotations": {**annotations, AUTONAMED: "true"}}}

    def is_fixed(self, record: Record, olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
        """Whether the program sets the name, and neither name nor namespace changes."""
        old, new = (inputs.get("metadata") or {} for inputs in (olds, news))
        is_unchanged = all(old.get(key) == new.get(key) for key in ("name", "namespace"))
        return is_unchanged and not _is_named_by_provider(news)

    def outputs(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """Id and outputs that the API server computes. They depend on the inputs alone."""
        if resource.type == RELEASE:
            release, namespace = str(inputs.get("name") or resource.name), namespace_of(inputs)
            known = {"name": release, "namespace": namespace}
            status = {**known, "revision": 1, "status": "deployed"}
            return f"{namespace}/{release}", {**known, **inputs, "status": status}
        metadata: dict[str, Any] = {"name": resource.name, **(inputs.get("metadata") or {})}
        kind = str(inputs.get("kind") or resource.type.split(":")[-1])
        if kind not in CLUSTER_SCOPED:
            metadata.setdefault("namespace", "default")
        path = "/".join(str(metadata[key]) for key in ("namespace", "name") if key in metadata)
        uid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{path}"))
        metadata |= {"uid": uid, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        status = {"status": _STATUS[kind]} if kind in _STATUS else {}
        return path, {**inputs, "metadata": metadata, **status}

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """Computes the outputs. A job that trains ends by `FakeCloud.outcome`.

        A RayJob that is awaited is ready if the program's expression names its end.
        """
        item_id, outputs = self.outputs(resource, inputs)
        not_ready = ""
        if inputs.get("kind") == "RayJob":
            outputs["status"] = RAY_ENDS[self.cloud.outcome]
            end, expression = outputs["status"]["jobDeploymentStatus"], json.dumps(inputs["metadata"])
            if is_awaited(inputs) and end not in expression:
                not_ready = f"timed out waiting for RayJob {inputs['metadata']['name']}: it is {end}"
        trains = inputs.get("kind") == "Job" and not prepares(inputs)
        if trains and self.cloud.outcome == "Failed" and is_awaited(inputs):
            not_ready = f"Job {item_id} failed: BackoffLimitExceeded"
        return item_id, outputs, not_ready

    def failure_message(self, operation: Operation, resource: Resource, item_id: str, reason: str) -> str:
        """The message of `Create` and `Update` in the provider's provider/pkg/provider/provider.go."""
        if operation == "creation":
            return (
                f'resource "{resource.urn}" was successfully created, but the Kubernetes API server reported '
                f"that it failed to fully initialize or become live: {reason}"
            )
        return (
            f'the Kubernetes API server reported that "{item_id}" failed to fully initialize or become live: '
            f"{reason}"
        )

    def cluster(self, resource: Resource) -> str:
        """The identity of the cluster in the configuration of the provider resource."""
        return str(resource.config.get("clusterIdentifier") or resource.config.get("kubeconfig") or "")

    def admit(self, resource: Resource, inputs: Inputs, olds: Mapping[str, Any]) -> None:
        """Checks that the cluster answers, and that the object's namespace and kind exist."""
        cluster = self.reached(resource)
        kind = str(inputs.get("kind") or resource.type.split(":")[-1])
        namespace = namespace_of(inputs)
        if kind not in CLUSTER_SCOPED and namespace not in ALWAYS_THERE:
            self._admit_to(namespace, cluster, inputs)
        version = str(inputs.get("apiVersion"))
        if version.startswith("ray.io/") and self.cloud.is_too_early(f"{cluster} ray.io"):
            raise Rejected(f'{_NO_KIND}: no matches for kind "{kind}" in version "{version}"')
        if resource.type == RELEASE:
            self._require_nodes(cluster)
        else:
            self._require_kueue(cluster, inputs)
        if kind in _JOBS:
            self.cloud.run_job()

    def _admit_to(self, namespace: str, cluster: str, inputs: Mapping[str, Any]) -> None:
        home = self.cloud.find((cluster, NAMESPACE.type, namespace))
        if home is None:
            raise Rejected(f'namespaces "{namespace}" not found')
        for path, reason in pod_security.problems(pod_security.level_of(home.inputs), inputs):
            raise Rejected(f"{path}: {reason}")

    def _require_kueue(self, cluster: str, inputs: Mapping[str, Any]) -> None:
        """Rejects an object that needs Kueue, if Kueue is not installed or its webhook does not answer."""
        kind, version = inputs.get("kind"), str(inputs.get("apiVersion"))
        own = version.startswith(kueue.GROUP)
        charts = [str(release.inputs.get("chart")) for release in self.cloud.of_type(RELEASE, cluster)]
        installed = any("kueue" in chart for chart in charts)
        if own and not installed:
            raise Rejected(f'{_NO_KIND}: no matches for kind "{kind}" in version "{version}"')
        # Kueue's webhooks also check every workload that names a queue.
        checked = (own and kind in kueue.CHECKED) or (installed and kueue.queue_of(inputs)[0])
        if checked and not self.cloud.webhook_answers():
            hook = f"m{str(kind).lower()}.kb.io"
            raise Rejected(f'Internal error occurred: failed calling webhook "{hook}": 502 Bad Gateway')

    def _require_nodes(self, cluster: str) -> None:
        """Rejects a release if its pods, which Helm waits for, tolerate the taints of no node."""
        clusters = self.cloud.of_type(CLUSTER)
        (home,) = [item for item in clusters if item.outputs["selfLink"] == cluster]
        if home.inputs.get("enableAutopilot"):
            return
        pools = self.cloud.pools_of(home)
        if all((pool.inputs.get("nodeConfig") or {}).get("taints") for pool in pools):
            raise Rejected("context deadline exceeded: the release's pods wait, no node is open to them")

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes an object if its cluster answers."""
        if self.find(resource, item_id):
            self.reached(resource)
        super().delete(resource, item_id)

    def reached(self, resource: Resource) -> str:
        """The identity of a resource's cluster.

        Raises:
            Rejected: If the cluster does not exist, or does not answer at the address of the kubeconfig.
        """
        kubeconfig = str(resource.config.get("kubeconfig") or "")
        identity = self.cluster(resource)
        for cluster in self.cloud.of_type(CLUSTER):
            if identity == cluster.outputs["selfLink"] and _answers(cluster.outputs, kubeconfig):
                return identity
        raise Rejected(f"{_UNREACHABLE}: unable to load schema information")


def _answers(cluster: Mapping[str, Any], kubeconfig: str) -> bool:
    """Whether a cluster with these outputs answers at the address of a kubeconfig.

    Raises:
        Rejected: If the client would refuse its certificate.
    """
    if any(at(cluster, "controlPlaneEndpointsConfig.dnsEndpointConfig.allowExternalTraffic")):
        (name,) = at(cluster, "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint")
        if name in kubeconfig and "certificate-authority-data" in kubeconfig:
            # A public authority signs this certificate, and a kubeconfig with an authority trusts no other.
            raise Rejected(f"{_UNREACHABLE}: x509: certificate signed by unknown authority")
        if name in kubeconfig:
            return True
    has_address = False not in at(cluster, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled")
    return has_address and cluster["endpoint"] in kubeconfig


def _is_named_by_provider(inputs: Mapping[str, Any]) -> bool:
    return AUTONAMED in ((inputs.get("metadata") or {}).get("annotations") or {})
