"""Nodes for pods that choose a ComputeClass, as GKE's autoscaler creates them.

The published autoscaler has these rules (GoogleCloudPlatform/cluster-autoscaler, 2026-08-21):

- A class's rules are tried in their order (pkg/computeclass/organizer.go), for each pod by itself.
- A rule without machines is left out for some time, except the last (pkg/backoff/npc_backoff.go). Here it is
  tried again at once, because a stockout here costs no time.
- With `DoNotScaleUp` nothing is created if no rule has machines.
- A node whose GPUs are used less than `gpuConsolidationThreshold` is removed. With 0 an empty node stays,
  because 0 is not less than 0 (`isNodeBelowUtilizationThreshold` of the autoscaler's core).

GKE's taint of such nodes, and the toleration that it adds to their pods, are missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from cloud.accelerators import DRIVER_LABEL
from cloud.machines import GPU_LABEL, MACHINES
from rehearsal.control_plane import network_cards
from rehearsal.control_plane.api import Object
from rehearsal.nodes.shapes import Shape, disk_for, taints_of, zones_of

CLASS_LABEL: Final = "cloud.google.com/compute-class"
KIND: Final = ("cloud.google.com/v1", "ComputeClass")
# The autoscaler's default for the use of GPUs, in percent.
_THRESHOLD: Final = 50
_RESERVED: Final = {
    "name": "cloud.google.com/reservation-name",
    "project": "cloud.google.com/reservation-project",
}


def class_of(tree: Object) -> str:
    """The class that a pod chooses, empty if it chooses none."""
    return str((tree["spec"].get("nodeSelector") or {}).get(CLASS_LABEL) or "")


def tree_of(name: str) -> Object:
    """A class by its name, without a spec."""
    version, kind = KIND
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def shapes_for(pod: Object, compute_class: Object, location: str) -> Iterator[Shape]:
    """The shapes of nodes that the rules of a class allow for a pod, in the order in which they are tried."""
    name = compute_class["metadata"]["name"]
    for number, rule in enumerate(compute_class["spec"].get("priorities") or ()):
        machine = MACHINES[rule["machineType"]]
        # A reservation is in one zone.
        anywhere = zones_of(location)[:1] if rule.get("reservations") else zones_of(location)
        zones = (rule.get("location") or {}).get("zones") or anywhere
        labels = {CLASS_LABEL: name, GPU_LABEL: machine.accelerator, **_labels(rule)}
        shape = Shape(
            pool=f"class-{name}-{number}",
            machine=machine,
            zones=tuple(zones),
            least=0,
            most=0,
            disk=disk_for(pod),
            labels={**labels, DRIVER_LABEL: rule["gpu"]["driverVersion"]},
            taints=tuple(taints_of(machine, ())),
            cards=machine.count if network_cards.has_cards(compute_class, rule) else 0,
        )
        if shape.suits(pod):
            yield shape


def status_of(dry: Iterable[Shape]) -> Object:
    """The status of a class whose rules for these shapes have no machines.

    pkg/computeclass/status/history/crd_backoff_observer.go
    """
    condition = {
        "type": "ProvisioningSuspended",
        "status": "True",
        "reason": "OutOfResources",
        "message": "NodeProvisioning associated with this priority failed due to the OutOfResources error.",
        "lastTransitionTime": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    numbers = [shape.pool.rpartition("-")[2] for shape in dry]
    return {"priorityStatuses": [{"identifier": number, "conditions": [condition]} for number in numbers]}


def keeps_empty(compute_class: Object) -> bool:
    """Whether the autoscaler leaves a node of the class that no pod runs on."""
    policy = compute_class["spec"].get("autoscalingPolicy") or {}
    return int(policy.get("gpuConsolidationThreshold", _THRESHOLD)) <= 0


def _labels(rule: Mapping[str, Any]) -> dict[str, str]:
    """The labels by which GKE marks the capacity of a node."""
    if rule.get("spot"):
        return {"cloud.google.com/gke-spot": "true"}
    if (rule.get("flexStart") or {}).get("enabled"):
        return {"cloud.google.com/gke-flex-start": "true"}
    specific = (rule.get("reservations") or {}).get("specific") or ()
    return {
        _RESERVED[key]: reservation[key]
        for reservation in specific
        for key in _RESERVED
        if key in reservation
    }
