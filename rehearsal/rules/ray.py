"""Rules for the names and slices of KubeRay's objects.

The API server accepts the objects, and KubeRay or GKE's webhooks reject them later. The API server checks the
fields by KubeRay's own definitions. Sources: KubeRay's validation
(ray-operator/controllers/ray/utils/validation.go) and its issue 4516.
"""

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

from cloud.accelerators import TOPOLOGY_LABEL
from cloud.inputs import is_unknown, numbers, objects, texts
from cloud.machines import TPU_RESOURCE
from cloud.quantity import canonical
from cloud.record import Problem
from cloud.rules import RFC1035, RFC1035_RULE
from cloud.services.kubernetes import chips_of
from rehearsal.rules import pods

_LONGEST: Final = {"RayCluster": 53, "RayJob": 47}
# With slices the name is shorter: GKE's webhook shortens CLUSTER-headless to 50 characters.
_LESS_OF_SLICES: Final = 12
POD_TEMPLATES: Final = {
    "RayCluster": ("spec.headGroupSpec.template", "spec.workerGroupSpecs[].template"),
    "RayJob": (
        "spec.submitterPodTemplate",
        "spec.rayClusterSpec.headGroupSpec.template",
        "spec.rayClusterSpec.workerGroupSpecs[].template",
    ),
}


def problems(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems of the names and slices of a RayCluster or RayJob."""
    kind = str(inputs["kind"])
    if kind not in _LONGEST or is_unknown(inputs.get("spec")):
        return
    cluster = "spec.rayClusterSpec" if kind == "RayJob" else "spec"
    yield from _named(inputs, kind, cluster)
    yield from _quantities(inputs["spec"], "spec")
    for group in objects(inputs, f"{cluster}.workerGroupSpecs[]"):
        yield from _slice(group)


def _named(inputs: Mapping[str, Any], kind: str, cluster: str) -> Iterator[Problem]:
    hosts = numbers(inputs, f"{cluster}.workerGroupSpecs[].numOfHosts")
    longest = _LONGEST[kind]
    if any(number > 1 for number in hosts):
        longest -= _LESS_OF_SLICES
    for name in texts(inputs, "metadata.name"):
        if not re.fullmatch(RFC1035 % (longest - 2), name):
            reason = f"{name!r} is not a valid name of a {kind}: {RFC1035_RULE % longest}"
            yield "metadata.name", reason


def _quantities(node: Any, path: str) -> Iterator[Problem]:
    """Quantities that KubeRay's operator writes back in another spelling, which every `refresh` reports.

    The API server keeps the fields of a custom resource as they were sent. The operator reads them into Go's
    types, and writes the whole object when it adds its finalizer.
    """
    if isinstance(node, list):
        for entry in node:
            yield from _quantities(entry, f"{path}[]")
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if key in ("limits", "requests", "sizeLimit"):
                yield from _spelt_otherwise(value, f"{path}.{key}")
            else:
                yield from _quantities(value, f"{path}.{key}")


def _spelt_otherwise(node: Any, path: str) -> Iterator[Problem]:
    for key, value in node.items() if isinstance(node, Mapping) else [("", node)]:
        if isinstance(value, str) and (spelling := canonical(value)) != value:
            where = f"{path}.{key}" if key else path
            yield where, f"the operator writes {value} back as {spelling}, a change in every refresh"


def _slice(group: Mapping[str, Any]) -> Iterator[Problem]:
    """A problem if a worker group with TPU chips has not as many hosts as its topology.

    Source: the webhook of GKE's Ray operator (ai-on-gke/kuberay-tpu-webhook, README).
    """
    template = next(objects(group, "template"), {})
    chips = chips_of(template)
    topology = pods.tpu_selector(template).get(TOPOLOGY_LABEL, "")
    if not chips or is_unknown(topology):
        return
    if not topology:
        yield "spec.workerGroupSpecs", f"pods with {TPU_RESOURCE} must select {TOPOLOGY_LABEL}"
        return
    if not re.fullmatch(r"\d+(x\d+)*", topology):
        yield "spec.workerGroupSpecs", f"{topology!r} is no topology such as 4x4"
        return
    hosts = max(prod(map(int, topology.split("x"))) // chips, 1)
    stated = group.get("numOfHosts", 1)
    if isinstance(stated, int) and stated != hosts:
        reason = f"numOfHosts {stated}, but a {topology} slice has {hosts} hosts with {chips} chips: "
        yield (
            "spec.workerGroupSpecs",
            f"{reason}number of workers in worker group not equal to specified topology",
        )
