"""A GKE Standard cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pulumi
import pulumi_gcp as gcp

from cloud.machines import MACHINES
from components.cluster import NODE_SCOPES, Cluster, ClusterArgs, ray_operators
from components.node_pool import NodePool, NodePoolArgs

# The system pool carries GKE's own pods and controllers such as Kueue: two nodes, so that webhooks
# answer while one of them is upgraded.
_SYSTEM_MACHINE: Final = MACHINES["e2-standard-4"]
_SYSTEM_NODES: Final = 2
_SYSTEM_DISK_GB: Final = 50


@dataclass(frozen=True, kw_only=True)
class StandardClusterArgs(ClusterArgs):
    """Arguments of `StandardCluster`, besides those of every cluster.

    Args:
        location: Region, or a zone: the control plane is then in that zone alone, as all nodes must be.
        zones: Zones of the cluster's nodes, all in its location.
    """

    zones: Sequence[str]


class StandardCluster(Cluster):
    """A cluster with a pool for the system; node pools for workloads are added to it."""

    # Standard nodes stream images through it; Autopilot has it of itself.
    apis = (*Cluster.apis, "containerfilesystem.googleapis.com")
    # GKE creates no cluster without a pool, and a pool inside the cluster's resource cannot be changed
    # without replacing the cluster: the first pool is removed at once. The state still has its
    # configuration, which must not count as a difference.
    _not_compared: ClassVar = ["nodeConfig"]

    def __init__(
        self, name: str, args: StandardClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        self._zones = list(args.zones)
        super().__init__(name, args, opts)

    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        return {
            # A zone's own cluster would take it for a second zone.
            "node_locations": self._zones if args.location not in self._zones else None,
            "initial_node_count": 1,
            "remove_default_node_pool": True,
            # The default account, which may be disabled and may do too much, has no node even for minutes.
            "node_config": gcp.container.ClusterNodeConfigArgs(
                service_account=self.node_account, oauth_scopes=list(NODE_SCOPES)
            ),
            # Dataplane V2: without it a Standard cluster takes NetworkPolicies and enforces none.
            "datapath_provider": "ADVANCED_DATAPATH",
            "workload_identity_config": gcp.container.ClusterWorkloadIdentityConfigArgs(
                workload_pool=pulumi.Output.concat(args.project, ".svc.id.goog")
            ),
            "addons_config": gcp.container.ClusterAddonsConfigArgs(
                gcs_fuse_csi_driver_config=gcp.container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(
                    enabled=True
                ),
                ray_operator_configs=ray_operators(args.ray_operator),
            ),
        }

    def _nodes(self, name: str, args: ClusterArgs) -> list[pulumi.Resource]:
        nodes = max(_SYSTEM_NODES, len(self._zones))
        system = NodePool(
            f"{name}-system",
            NodePoolArgs(
                cluster=self,
                machine=_SYSTEM_MACHINE,
                zones=self._zones,
                minimum=nodes,
                maximum=nodes,
                disk_gb=_SYSTEM_DISK_GB,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return [system.ready]
