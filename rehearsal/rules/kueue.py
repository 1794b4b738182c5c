"""Rules of Kueue's objects, and what workloads say to Kueue.

Sources: the definitions and webhooks of Kueue 0.19.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, given, is_unknown, objects, texts
from cloud.record import Problem
from rehearsal.rules import json_schema

GROUP: Final = "kueue.x-k8s.io/"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
_QUEUED: Final = ("Job", "Deployment", "StatefulSet", "Pod", "RayCluster", "RayJob")
# Kinds that Kueue's webhooks check.
CHECKED: Final = ("ClusterQueue", "ResourceFlavor", "LocalQueue")
_SERVED: Final = "kueue.x-k8s.io/v1beta2"


def problems(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything wrong with one of Kueue's own objects."""
    kind = str(inputs["kind"])
    if inputs["apiVersion"] != _SERVED:
        yield "apiVersion", f"{inputs['apiVersion']} is deprecated; write {_SERVED}"
    if kind == "WorkloadPriorityClass":
        if not isinstance(inputs.get("value"), int) and not is_unknown(inputs.get("value")):
            yield "value", "Required value"
        if "spec" in inputs:
            yield "spec", 'unknown field "spec"'
        return
    if kind not in CHECKED or is_unknown(inputs.get("spec")):
        return
    yield from json_schema.problems(
        json_schema.validator("kueue.schema.yaml", kind), inputs.get("spec") or {}, "spec"
    )
    for group in at(inputs, "spec.resourceGroups[]"):
        covered = set(texts(group, "coveredResources[]"))
        for flavor in at(group, "flavors[]"):
            if covered != set(texts(flavor, "resources[].name")):
                reason = "flavors must have the same number of resources as the coveredResources"
                yield "spec.resourceGroups", reason
    limits = list(at(inputs, "spec.resourceGroups[].flavors[].resources[].borrowingLimit"))
    if limits and not given(inputs, "spec.cohortName"):
        yield "spec.resourceGroups", "borrowingLimit must be nil when cohort is empty"


def queue_of(inputs: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The LocalQueue and the WorkloadPriorityClass that a workload's own labels name."""
    labels = next(objects(inputs, "metadata.labels"), {})
    if inputs.get("kind") not in _QUEUED:
        return None, None
    queue, priority = (name if isinstance(name, str) else None for name in map(labels.get, (QUEUE, PRIORITY)))
    return queue, priority
