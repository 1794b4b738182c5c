"""A GKE Standard cluster and its node pools."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pulumi
import pulumi_gcp as gcp

from cloud.accelerators import GPU_DRIVER
from cloud.machines import GPU_RESOURCE, MACHINES, Machine
from components.base.component import Args, Component
from components.cluster.capacity import Capacity
from components.cluster.cluster import NODE_SCOPES, RAY_OPERATOR, Cluster, ClusterArgs

# GKE adds the toleration to pods that request GPUs.
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus
_GPU_TAINT: Final = gcp.container.NodePoolNodeConfigTaintArgs(
    key=GPU_RESOURCE, value="present", effect="NO_SCHEDULE"
)
# A node boots only signed software, and GKE compares every boot with the first one (assumption
# secure-boot-accelerators). GKE does the same on every Autopilot node.
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/shielded-gke-nodes
_SHIELDED: Final = gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs(
    enable_secure_boot=True, enable_integrity_monitoring=True
)
# The same for the pool that GKE creates with the cluster, and that is removed at once.
_FIRST_SHIELDED: Final = gcp.container.ClusterNodeConfigShieldedInstanceConfigArgs(
    enable_secure_boot=True, enable_integrity_monitoring=True
)
# The system node pool runs GKE's own pods and controllers such as Kueue. With two nodes, webhooks answer
# while one node is upgraded.
_SYSTEM_MACHINE: Final = MACHINES["e2-standard-4"]
_SYSTEM_NODES: Final = 2
_SYSTEM_DISK_GB: Final = 50


class NodePoolArgs(Args):
    """Arguments of `NodePool`.

    Args:
        cluster: A Standard cluster.
        machine: Machine type of the nodes. A taint keeps pods without GPUs off machines with GPUs.
        zones: Zones of the nodes, all in the cluster's location.
        minimum: Fewest nodes in all zones together. Without an autoscaler every zone has the same number.
        maximum: Most nodes in all zones together. Above `minimum` the autoscaler chooses the number.
        disk_gb: Size of the boot disk in GB. It also holds images and the pods' scratch space.
        tpu_topology: Chips of the TPU slice that the whole pool forms, such as `4x4`. None for a pool that is
            not one slice: GPU machines, CPU machines, or independent TPU hosts.
        capacity: Where the machines come from. None means on demand.
        node_labels: Labels of the nodes besides GKE's own.
        run_hours: Hours that a run on the nodes may train. None means no limit.
    """

    cluster: Cluster
    machine: Machine
    zones: Sequence[str]
    minimum: int
    maximum: int
    disk_gb: int
    tpu_topology: str | None = None
    capacity: Capacity | None = None
    node_labels: Mapping[str, str] | None = None
    run_hours: int | None = None


class NodePool(Component[NodePoolArgs]):
    """A node pool: nodes of one machine type.

    Attributes:
        ready: The pool itself, for which a pod that needs these nodes can wait.
    """

    # APIs that a cluster with a TPU slice needs besides the cluster's own.
    tpu_apis: ClassVar = ("tpu.googleapis.com",)

    def _declare(self, name: str, args: NodePoolArgs) -> None:
        cluster, fixed_size = args.cluster, args.minimum == args.maximum
        # There may be no spare accelerator machine.
        scarce = args.machine.model is not None
        # Upgrades go node by node. Scarce machines get no spare node, for example beside a full reservation.
        spare = 0 if scarce else 1
        flex_start = args.capacity is not None and args.capacity.flex_start
        queued = args.capacity is not None and args.capacity.queued
        compact = gcp.container.NodePoolPlacementPolicyArgs(type="COMPACT", tpu_topology=args.tpu_topology)
        self.ready: pulumi.Resource = gcp.container.NodePool(
            f"{name}-pool",
            project=cluster.resource.project,
            location=cluster.location,
            cluster=cluster.resource.name,
            node_locations=list(args.zones),
            node_count=args.maximum // len(args.zones) if fixed_size else None,
            autoscaling=None if fixed_size else _limits(args),
            management=gcp.container.NodePoolManagementArgs(
                # GKE rejects repairs for flex-start pools. On a release channel it rejects a pool without
                # upgrades, so the cluster's maintenance exclusion holds the upgrades.
                # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start-training
                auto_repair=not flex_start,
                auto_upgrade=True,
            ),
            upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(
                max_surge=spare, max_unavailable=1 - spare
            ),
            # Places the machines of a slice together. GKE rejects the policy for a single machine.
            # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/tpus
            placement_policy=compact if args.tpu_topology and args.maximum > 1 else None,
            queued_provisioning=gcp.container.NodePoolQueuedProvisioningArgs(enabled=True)
            if queued
            else None,
            node_config=_node_config(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                # Two pools at once would need twice the quota.
                delete_before_replace=scarce,
                # For another topology the provider would resize a pool with several machines, and change the
                # machine type of a pool with one. The trigger replaces the pool instead. State from before
                # the trigger has only the policy. The engine compares whole inputs, so this names the block
                # and not the field in it.
                replace_on_changes=["placementPolicy"] if args.tpu_topology else None,
                replacement_trigger=args.tpu_topology,
                # Deleting the cluster deletes its nodes at once. Deleting the pool first would drain them,
                # for up to an hour if a disruption budget blocks the drain.
                deleted_with=cluster.resource,
            ),
        )


def _limits(args: NodePoolArgs) -> gcp.container.NodePoolAutoscalingArgs:
    """The limits of the autoscaler."""
    if args.tpu_topology:
        # A slice is in one zone, and GKE accepts only limits per zone (assumption tpu-limits-by-zone).
        return gcp.container.NodePoolAutoscalingArgs(min_node_count=args.minimum, max_node_count=args.maximum)
    # Limits for all zones together. Any zone with free machines may provide the nodes.
    return gcp.container.NodePoolAutoscalingArgs(
        total_min_node_count=args.minimum, total_max_node_count=args.maximum, location_policy="ANY"
    )


def _node_config(args: NodePoolArgs) -> gcp.container.NodePoolNodeConfigArgs:
    machine = args.machine
    has_gpus = bool(machine.count) and not machine.is_tpu
    # One thread per core, as in the tutorial: the thread that feeds the chips gets a whole core.
    one_thread = gcp.container.NodePoolNodeConfigAdvancedMachineFeaturesArgs(threads_per_core=1)
    # GKE installs and updates the driver.
    driver = gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
        gpu_driver_version=GPU_DRIVER.upper()
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
        boot_disk_kms_key=args.cluster.kms_key,
        resource_labels=args.cluster.labels,
        labels=args.node_labels,
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
        # Image streaming: a container starts before its image is completely there. It works for images in
        # Artifact Registry and public images on Docker Hub. The first pull in a region gains little, because
        # it fills the cache. Autopilot streams by default.
        gcfs_config=gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=True),
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True),
        shielded_instance_config=_SHIELDED,
        guest_accelerators=[accelerator] if has_gpus else None,
        taints=[_GPU_TAINT] if has_gpus else None,
        advanced_machine_features=one_thread if args.tpu_topology else None,
        **(args.capacity.node_config(args.run_hours) if args.capacity else {}),
    )


class StandardCluster(Cluster):
    """A cluster with a system node pool. Scenarios add node pools for their workloads."""

    # GKE creates every cluster with a pool. Changing a pool inside the cluster's resource would replace the
    # cluster, so this first pool is removed at once. The state still has its configuration, which must not
    # count as a difference.
    _not_compared: ClassVar = ("nodeConfig",)

    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        return {
            # A zonal cluster would take its own zone for a second one.
            "node_locations": list(args.zones) if args.location not in args.zones else None,
            "initial_node_count": 1,
            "remove_default_node_pool": True,
            # The first pool exists for minutes only, but must not use the default account: it may be
            # disabled, and it has too many roles.
            "node_config": gcp.container.ClusterNodeConfigArgs(
                service_account=self.node_account,
                oauth_scopes=list(NODE_SCOPES),
                boot_disk_kms_key=args.kms_key,
                shielded_instance_config=_FIRST_SHIELDED,
            ),
            # Dataplane V2. Without it a Standard cluster accepts NetworkPolicies and enforces none.
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
