"""The smallest objects that show what a queue does: six L4 GPUs, servers and a training Job of two pods."""

from typing import Any

from cloud.machines import MACHINES
from rehearsal.control_plane.api import Object
from rehearsal.control_plane.nodes import Shape

NAMESPACE = "llm"
QUEUE = "llm"
_QUEUE_LABEL = {"kueue.x-k8s.io/queue-name": QUEUE}
_KUEUE = "kueue.x-k8s.io/v1beta2"
_QUOTA = {"cpu": "60", "memory": "240Gi", "nvidia.com/gpu": "6", "ephemeral-storage": "200Gi"}

GPU_NODES = Shape(pool="l4", machine=MACHINES["g2-standard-24"], zones=("us-central1-a",), least=3, most=3)


def namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def queue() -> list[Object]:
    """The flavor, the queue of the cluster and the one of the namespace, in the order of creation."""
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in _QUOTA.items()]
    group = {"coveredResources": list(_QUOTA), "flavors": [{"name": "l4", "resources": quotas}]}
    return [
        _of(
            _KUEUE,
            "ResourceFlavor",
            "l4",
            spec={"nodeLabels": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
        ),
        _of(
            _KUEUE,
            "ClusterQueue",
            QUEUE,
            spec={
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "resourceGroups": [group],
                "preemption": {"withinClusterQueue": "LowerPriority"},
            },
        ),
        _of(_KUEUE, "LocalQueue", QUEUE, namespaced=True, spec={"clusterQueue": QUEUE}),
    ]


def priorities() -> list[Object]:
    return [
        _of("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
        for name, value in (("training", 10), ("serving", 20))
    ]


def serving(replicas: int = 1) -> Object:
    labels = {"app": "server"}
    template = {"metadata": {"labels": labels}, "spec": _pod("serving", cpu="4", memory="30Gi")}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return _of("apps/v1", "Deployment", "server", namespaced=True, labels=_QUEUE_LABEL, spec=spec)


def training(name: str = "training", *, linger: str = "") -> Object:
    """A Job of two pods with two GPUs each; `linger` is how long they take to go."""
    annotations = {"rehearsal/linger": linger} if linger else {}
    pod = {**_pod("training", cpu="4", memory="16Gi"), "restartPolicy": "Never"}
    spec = {
        "completions": 2,
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"metadata": {"annotations": annotations}, "spec": pod},
    }
    return _of("batch/v1", "Job", name, namespaced=True, labels=_QUEUE_LABEL, spec=spec)


def _pod(priority: str, **size: str) -> dict[str, Any]:
    resources = {**size, "nvidia.com/gpu": "2"}
    container = {"name": "main", "image": "image", "resources": {"requests": resources, "limits": resources}}
    return {"priorityClassName": priority, "terminationGracePeriodSeconds": 60, "containers": [container]}


def _of(
    version: str,
    kind: str,
    name: str,
    *,
    namespaced: bool = False,
    labels: dict[str, str] | None = None,
    **body: Any,
) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": labels or {}}
    if namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
