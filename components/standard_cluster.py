"""A GKE Standard cluster and its pools of nodes."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import pulumi
import pulumi_gcp as gcp

from cloud.machines import GPU_RESOURCE, MACHINES, Machine
from components.capacity import Capacity
from components.cluster import NODE_SCOPES, RAY_OPERATOR, Cluster, ClusterArgs
from components.component import Args, Component

# GKE lets pods that ask for GPUs tolerate it.
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus
_GPU_TAINT: Final = gcp.container.NodePoolNodeConfigTaintArgs(
    key=GPU_RESOURCE, value="present", effect="NO_SCHEDULE"
)
# The system pool carries GKE's own pods and controllers such as Kueue: two nodes, so that webhooks
# answer while one of them is upgraded.
_SYSTEM_MACHINE: Final = MACHINES["e2-standard-4"]
_SYSTEM_NODES: Final = 2
_SYSTEM_DISK_GB: Final = 50


class NodePoolArgs(Args):
    """Arguments of `NodePool`.

    Args:
        cluster: A Standard cluster.
        machine: Machine type of the nodes; a pool with GPUs is kept free of pods without one.
        minimum: Nodes in all zones together that are kept; without an autoscaler the same number in each.
        maximum: Nodes in all zones together at most; more than `minimum` lets the autoscaler decide.
        disk_gb: Size of the boot disk, which holds images and pods' scratch space too.
        capacity: Where the machines come from, None for on demand.
        run_hours: Hours that a run on its nodes may train, None for no limit.
    """

    cluster: Cluster
    machine: Machine
    zones: Sequence[str]
    minimum: int
    maximum: int
    disk_gb: int
    tpu_topology: str | None = None
    capacity: Capacity | None = None
    run_hours: int | None = None


class NodePool(Component[NodePoolArgs]):
    """Nodes of one kind.

    Attributes:
        ready: What a pod that needs these nodes may wait for.
    """

    group = "cluster"
    # APIs that a cluster with a TPU slice needs besides its own.
    tpu_apis: ClassVar = ("tpu.googleapis.com",)

    def _declare(self, name: str, args: NodePoolArgs) -> None:
        cluster, fixed_size = args.cluster, args.minimum == args.maximum
        # There may be no second machine of the kind.
        scarce = args.machine.model is not None
        # Limits for all zones together, and nodes from whichever zone has them.
        autoscaling = gcp.container.NodePoolAutoscalingArgs(
            total_min_node_count=args.minimum, total_max_node_count=args.maximum, location_policy="ANY"
        )
        if args.tpu_topology:
            # A slice is in one zone, and GKE takes limits by zone alone (assumption tpu-limits-by-zone).
            autoscaling = gcp.container.NodePoolAutoscalingArgs(
                min_node_count=args.minimum, max_node_count=args.maximum
            )
        # Node by node: without a spare one where there may be none, such as beside a full reservation.
        spare = 0 if scarce else 1
        wired = gcp.container.NodePoolPlacementPolicyArgs(type="COMPACT", tpu_topology=args.tpu_topology)
        self.ready: pulumi.Resource = gcp.container.NodePool(
            f"{name}-pool",
            project=cluster.resource.project,
            location=cluster.location,
            cluster=cluster.resource.name,
            node_locations=list(args.zones),
            node_count=args.maximum // len(args.zones) if fixed_size else None,
            autoscaling=None if fixed_size else autoscaling,
            management=gcp.container.NodePoolManagementArgs(
                # GKE rejects repairs for flex-start pools, and on a release channel a pool without upgrades;
                # the cluster's exclusion holds them back.
                # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start-training
                auto_repair=not (args.capacity and args.capacity.flex_start),
                auto_upgrade=True,
            ),
            upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(
                max_surge=spare, max_unavailable=1 - spare
            ),
            # Machines that are wired to each other; for a single one GKE rejects the policy.
            # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/tpus
            placement_policy=wired if args.tpu_topology and args.maximum > 1 else None,
            node_config=_node_config(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                # Two pools at a time would need twice the quota.
                delete_before_replace=scarce,
                # For another topology the provider would resize a pool of several machines, and of one change
                # the type. State from before the trigger has the policy alone; the engine decides by
                # whole inputs, so the block and not its leaf.
                replace_on_changes=["placementPolicy"] if args.tpu_topology else None,
                replacement_trigger=args.tpu_topology,
                # Deleting the cluster deletes its nodes at once; deleting the pool first would drain
                # them, as long as an hour where a disruption budget is in the way.
                deleted_with=cluster.resource,
            ),
        )


def _node_config(args: NodePoolArgs) -> gcp.container.NodePoolNodeConfigArgs:
    machine, gpus = args.machine, bool(args.machine.count) and not args.machine.is_tpu
    # The whole core for the thread that feeds the chips, as the tutorial has it.
    one_thread = gcp.container.NodePoolNodeConfigAdvancedMachineFeaturesArgs(threads_per_core=1)
    # The newest driver that GKE installs and keeps up to date.
    driver = gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
        gpu_driver_version="LATEST"
    )
    accelerator = gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=machine.accelerator, count=machine.count, gpu_driver_installation_config=driver
    )
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=machine.name,
        disk_type=machine.disk_type,
        disk_size_gb=args.disk_gb,
        service_account=args.cluster.node_account,
        oauth_scopes=list(NODE_SCOPES),
        resource_labels=args.cluster.labels,
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
        # A container starts while its image is still on its way, for images of Artifact Registry and public
        # ones of Docker Hub. An image's first pull in a region hardly gains: it fills the cache. Autopilot
        # streams without being told to.
        gcfs_config=gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=True),
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True),
        guest_accelerators=[accelerator] if gpus else None,
        taints=[_GPU_TAINT] if gpus else None,
        advanced_machine_features=one_thread if args.tpu_topology else None,
        **(args.capacity.node_config(args.run_hours) if args.capacity else {}),
    )


class StandardCluster(Cluster):
    """A cluster with a pool for the system; node pools for workloads are added to it."""

    # GKE creates no cluster without a pool, and a pool inside the cluster's resource cannot be changed
    # without replacing the cluster: the first pool is removed at once. The state still has its
    # configuration, which must not count as a difference.
    _not_compared: ClassVar = ["nodeConfig"]

    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        return {
            # A zone's own cluster would take it for a second zone.
            "node_locations": list(args.zones) if args.location not in args.zones else None,
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
                ray_operator_configs=[RAY_OPERATOR] if args.ray_operator else None,
            ),
        }

    def _nodes(self, name: str, args: ClusterArgs) -> list[pulumi.Resource]:
        nodes = max(_SYSTEM_NODES, len(args.zones))
        system = NodePool(
            f"{name}-system",
            NodePoolArgs(
                cluster=self,
                machine=_SYSTEM_MACHINE,
                zones=args.zones,
                minimum=nodes,
                maximum=nodes,
                disk_gb=_SYSTEM_DISK_GB,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return [system.ready]
