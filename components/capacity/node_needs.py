"""What the pods of a job need of their nodes besides accelerators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.base.pod_patch import PodPatch


@dataclass(frozen=True, kw_only=True)
class NodeNeeds:
    """Needs of pods, and what they ask of the nodes' class, of the queue and of the pods. By default nothing.

    Args:
        rule: Fields of every rule of the nodes' `ComputeClass`.
        pool: Fields of the node pools of the class.
        devices: Classes of devices that a pod claims, by the name of the resource by which a queue counts
            them.
        devices_per_pod: Number of devices that a pod claims, by the same names.
        pods: Additions to the pods.
        access: What the class and the pods must wait for.
    """

    rule: Mapping[str, Any] = field(default_factory=dict)
    pool: Mapping[str, Any] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    devices_per_pod: Mapping[str, int] = field(default_factory=dict)
    pods: PodPatch = field(default_factory=PodPatch)
    access: Sequence[pulumi.Resource] = ()
