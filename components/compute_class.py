"""GKE's choice of machines for pods: a ComputeClass."""

from typing import Any, Final

import pulumi

from components.capacity_chain import NodeClass
from components.cluster import Cluster
from components.component import Args, Component
from components.manifest import MANIFESTS, Manifest

# Label by which a pod chooses a class, and by which GKE marks the class's nodes.
CLASS_LABEL: Final = "cloud.google.com/compute-class"


class ComputeClassArgs(Args):
    """Arguments of `ComputeClass`.

    Args:
        cluster: A cluster that creates nodes for its pods.
        node_class: Name and rules of the class.
    """

    cluster: Cluster
    node_class: NodeClass


class ComputeClass(Component[ComputeClassArgs]):
    """A class of machines.

    Attributes:
        access: The class, for which a pod that chooses it must wait. GKE refuses a pod of an unknown class.
    """

    group = "cluster"

    def _declare(self, name: str, args: ComputeClassArgs) -> None:
        holes = {
            "name": args.node_class.name,
            "rules": [_with_disk_key(rule, args.cluster.kms_key) for rule in args.node_class.rules],
            "serviceAccount": args.cluster.node_account,
        }
        manifest = Manifest(MANIFESTS / "compute-class.yaml", holes)
        self.access: pulumi.Resource = manifest.create(f"{name}-class", args.cluster.inside(self))


def _with_disk_key(rule: dict[str, Any], kms_key: str | None) -> dict[str, Any]:
    """The rule with the key of the nodes' boot disks, which the cluster's defaults name for other nodes."""
    return {**rule, "storage": {"bootDiskKMSKey": kms_key}} if kms_key else rule
