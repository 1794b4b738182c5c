"""Requests for all nodes of a job at once, which GKE calls queued provisioning.

Kueue holds a job back, asks GKE for its nodes and starts its pods when all of them are there. No node costs
before that. https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest
"""

from typing import Final

import pulumi

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.queue.kueue import Kueue

# GKE keeps all other pods off such nodes.
# https://github.com/GoogleCloudPlatform/cluster-autoscaler
# (pkg/provisioningrequests/pods/pods.go, 2026-08-21)
QUEUED_NODES: Final = {
    "key": "cloud.google.com/gke-queued",
    "operator": "Equal",
    "value": "true",
    "effect": "NoSchedule",
}


class NodeRequestsArgs(Args):
    """Arguments of `NodeRequests`.

    Args:
        kueue: Kueue, which has waited for a `RequestKind`.
        resource: Resource of the accelerators. Pods without them need no request.
        hours: Hours after which GKE takes the nodes back, at most 168.
    """

    kueue: Kueue
    resource: str
    hours: int


class NodeRequests(Component[NodeRequestsArgs]):
    """The check by which a queue requests nodes.

    Attributes:
        check: Its name, for a queue.
        access: The check, for which the queue must wait.
    """

    def _declare(self, name: str, args: NodeRequestsArgs) -> None:
        self.check = "all-nodes"
        inside = args.kueue.inside
        holes = {"name": self.check, "resource": args.resource, "seconds": str(args.hours * 3600)}
        config = Manifest(MANIFESTS / "provisioning-request-config.yaml", holes).create(
            f"{name}-provisioning-request-config", inside(self)
        )
        check = Manifest(MANIFESTS / "admission-check.yaml", {"name": self.check})
        self.access: pulumi.Resource = check.create(f"{name}-admission-check", inside(self, [config]))
