"""Labels of workloads for Kueue. Kueue's definitions and webhooks check its own objects."""

from collections.abc import Mapping
from typing import Any, Final

from cloud.inputs import objects

GROUP: Final = "kueue.x-k8s.io/"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
_QUEUED: Final = ("Job", "Deployment", "StatefulSet", "Pod", "RayCluster", "RayJob")
# Kinds that Kueue's webhooks check.
CHECKED: Final = ("ClusterQueue", "ResourceFlavor", "LocalQueue")


def queue_of(inputs: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The LocalQueue and the WorkloadPriorityClass that a workload's own labels name."""
    labels = next(objects(inputs, "metadata.labels"), {})
    if inputs.get("kind") not in _QUEUED:
        return None, None
    queue, priority = (name if isinstance(name, str) else None for name in map(labels.get, (QUEUE, PRIORITY)))
    return queue, priority
