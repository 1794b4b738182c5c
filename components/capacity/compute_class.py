"""GKE's choice of machines for pods: a ComputeClass."""

from dataclasses import field
from typing import Any, Final

import pulumi

from cloud.machines import GPU_RESOURCE
from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.capacity.capacity_chain import NodeClass
from components.capacity.node_needs import NodeNeeds
from components.cluster.cluster import Cluster

# Label by which a pod chooses a class, and by which GKE marks the class's nodes.
CLASS_LABEL: Final = "cloud.google.com/compute-class"
# GKE taints nodes with GPUs. Its admission tolerates that for pods that ask for GPUs. By Google's skill for
# classes and its samples, pods that choose a class say so themselves: assumption class-pods.
GPU_NODES: Final = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}


class ComputeClassArgs(Args):
    """Arguments of `ComputeClass`.

    Args:
        cluster: A cluster that creates nodes for its pods.
        node_class: Name and rules of the class.
        needs: What its pods need of the nodes.
    """

    cluster: Cluster
    node_class: NodeClass
    needs: NodeNeeds = field(default_factory=NodeNeeds)


class ComputeClass(Component[ComputeClassArgs]):
    """A class of machines.

    Attributes:
        access: The class, for which a pod that chooses it must wait. GKE refuses a pod of an unknown class.
    """

    def _declare(self, name: str, args: ComputeClassArgs) -> None:
        needs = args.needs
        rules = [{**rule, **needs.rule} for rule in args.node_class.rules]
        holes = {
            "name": args.node_class.name,
            "rules": [_with_disk_key(rule, args.cluster.kms_key) for rule in rules],
            "serviceAccount": args.cluster.node_account,
            "pool": dict(needs.pool),
        }
        manifest = Manifest(MANIFESTS / "compute-class.yaml", holes)
        self.access: pulumi.Resource = manifest.create(
            f"{name}-class", args.cluster.inside(self, needs.access)
        )


def _with_disk_key(rule: dict[str, Any], kms_key: str | None) -> dict[str, Any]:
    """The rule with the key of the nodes' boot disks, which the cluster's defaults name for other nodes."""
    return {**rule, "storage": {"bootDiskKMSKey": kms_key}} if kms_key else rule
