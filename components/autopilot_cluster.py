"""A GKE Autopilot cluster."""

import pulumi
import pulumi_gcp as gcp

from components.cluster import (
    NODE_SCOPES,
    RELEASE_CHANNEL,
    Cluster,
    ClusterArgs,
    ray_operators,
)
from components.network import PODS_RANGE, SERVICES_RANGE


class AutopilotCluster(Cluster):
    """A cluster that makes its nodes for the pods there are."""

    def _make(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions) -> gcp.container.Cluster:
        operators = ray_operators(args.ray_operator)
        return gcp.container.Cluster(
            f"{name}-cluster",
            name=args.cluster_name,
            project=args.project,
            location=args.location,
            enable_autopilot=True,
            network=args.network,
            subnetwork=args.subnet,
            ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=PODS_RANGE,
                services_secondary_range_name=SERVICES_RANGE,
            ),
            private_cluster_config=gcp.container.ClusterPrivateClusterConfigArgs(enable_private_nodes=True),
            release_channel=gcp.container.ClusterReleaseChannelArgs(channel=RELEASE_CHANNEL),
            cluster_autoscaling=_autoscaling(self.node_account),
            addons_config=(
                gcp.container.ClusterAddonsConfigArgs(ray_operator_configs=operators) if operators else None
            ),
            resource_labels=args.labels,
            # The default refuses `pulumi destroy`; what must not be lost is in the bucket, which
            # has a protection of its own.
            deletion_protection=False,
            opts=opts,
        )


def _autoscaling(node_account: pulumi.Input[str]) -> gcp.container.ClusterClusterAutoscalingArgs:
    """On Autopilot these defaults are what every node is made with."""
    return gcp.container.ClusterClusterAutoscalingArgs(
        auto_provisioning_defaults=gcp.container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs(
            service_account=node_account, oauth_scopes=list(NODE_SCOPES)
        )
    )
