"""Rules of KubeRay's objects.

Sources: KubeRay's validation (ray-operator/controllers/ray/utils/validation.go) and its issue 4516.
"""

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

from cloud.inputs import given, is_unknown, numbers, objects, texts
from cloud.kubernetes import chips_of
from cloud.machines import TOPOLOGY_LABEL, TPU_RESOURCE
from cloud.record import Problem
from cloud.rules import RFC1035, RFC1035_RULE
from rehearsal.rules import json_schema, pods

_LONGEST: Final = {"RayCluster": 53, "RayJob": 47}
# So that CLUSTER-headless has no more than the 50 characters to which GKE's webhook shortens it.
_LESS_OF_SLICES: Final = 12
_NOT_WITH_SELECTOR: Final = {
    "backoffLimit": "must be 0 with clusterSelector: a retry would delete the cluster",
    "suspend": "a job with clusterSelector cannot be suspended",
    "shutdownAfterJobFinishes": "a job does not shut down a cluster that it selects",
}
POD_TEMPLATES: Final = {
    "RayCluster": ("spec.headGroupSpec.template", "spec.workerGroupSpecs[].template"),
    "RayJob": (
        "spec.submitterPodTemplate",
        "spec.rayClusterSpec.headGroupSpec.template",
        "spec.rayClusterSpec.workerGroupSpecs[].template",
    ),
}


def problems(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything wrong with a RayCluster or RayJob but its pod templates."""
    kind = str(inputs["kind"])
    if kind not in _LONGEST or is_unknown(inputs.get("spec")):
        return
    cluster = "spec.rayClusterSpec" if kind == "RayJob" else "spec"
    yield from _named(inputs, kind, cluster)
    yield from json_schema.problems(
        json_schema.validator("ray.schema.yaml", kind), inputs.get("spec") or {}, "spec"
    )
    if kind == "RayJob":
        yield from _job(inputs)
    for group in objects(inputs, f"{cluster}.workerGroupSpecs[]"):
        yield from _replicas(group)
        yield from _slice(group)


def _named(inputs: Mapping[str, Any], kind: str, cluster: str) -> Iterator[Problem]:
    hosts = numbers(inputs, f"{cluster}.workerGroupSpecs[].numOfHosts")
    longest = _LONGEST[kind] - _LESS_OF_SLICES * any(each > 1 for each in hosts)
    for name in texts(inputs, "metadata.name"):
        if not re.fullmatch(RFC1035 % (longest - 2), name):
            reason = f"{name!r} is not a valid name of a {kind}: {RFC1035_RULE % longest}"
            yield "metadata.name", reason


def _job(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    selects = given(inputs, "spec.clusterSelector")
    if selects == given(inputs, "spec.rayClusterSpec"):
        yield "spec", "exactly one of clusterSelector and rayClusterSpec is needed"
    for key, reason in _NOT_WITH_SELECTOR.items() if selects else ():
        if given(inputs, f"spec.{key}"):
            yield f"spec.{key}", reason
    if selects and "SidecarMode" in texts(inputs, "spec.submissionMode"):
        yield "spec.submissionMode", "SidecarMode needs a rayClusterSpec"
    for key in ("suspend", "ttlSecondsAfterFinished"):
        if given(inputs, f"spec.{key}") and not given(inputs, "spec.shutdownAfterJobFinishes"):
            yield f"spec.{key}", "needs shutdownAfterJobFinishes"


def _replicas(group: Mapping[str, Any]) -> Iterator[Problem]:
    least, wanted, most = (group.get(key) for key in ("minReplicas", "replicas", "maxReplicas"))
    if not isinstance(least, int) or not isinstance(most, int):
        return
    if not least <= (wanted if isinstance(wanted, int) else least) <= most:
        reason = f"replicas {wanted} must lie between minReplicas {least} and maxReplicas {most}"
        yield "spec.workerGroupSpecs", reason


def _slice(group: Mapping[str, Any]) -> Iterator[Problem]:
    """A worker group with TPU chips has as many hosts as make up its topology.

    Source: the webhook of GKE's Ray operator (ai-on-gke/kuberay-tpu-webhook, README).
    """
    template = next(objects(group, "template"), {})
    chips, topology = chips_of(template), pods.tpu_selector(template).get(TOPOLOGY_LABEL, "")
    if not chips or is_unknown(topology):
        return
    if not topology:
        yield "spec.workerGroupSpecs", f"pods with {TPU_RESOURCE} must select {TOPOLOGY_LABEL}"
        return
    if not re.fullmatch(r"\d+(x\d+)*", topology):
        yield "spec.workerGroupSpecs", f"{topology!r} is no topology such as 4x4"
        return
    hosts, stated = max(prod(map(int, topology.split("x"))) // chips, 1), group.get("numOfHosts", 1)
    if isinstance(stated, int) and stated != hosts:
        reason = f"numOfHosts {stated}, but a {topology} slice has {hosts} hosts with {chips} chips: "
        yield (
            "spec.workerGroupSpecs",
            f"{reason}number of workers in worker group not equal to specified topology",
        )
