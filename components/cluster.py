"""GKE clusters: what all of them have in common, and the Autopilot cluster."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.component import Args, Component
from components.image import Image
from components.manifest import MANIFESTS, Manifest
from components.network import PODS_RANGE, SERVICES_RANGE

# What a node may do in the project, by the end of the binding's name; instead of the Editor role that the
# default service account carries.
_NODE_ROLES: Final[Mapping[str, str]] = {
    # Logs, metrics and health of the node.
    "nodes-role": "roles/container.defaultNodeServiceAccount",
    # Image streaming: without it nodes pull every image whole, or not at all (assumption image-streaming).
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming
    "nodes-usage": "roles/serviceusage.serviceUsageConsumer",
}
# What a node's service account may do is said by its roles; these let it ask at all.
NODE_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_RELEASE_CHANNEL: Final = "REGULAR"
# Beside an exclusion there must be a window. Without a policy the provider leaves the exclusions there are.
_ANY_TIME: Final = gcp.container.ClusterMaintenancePolicyRecurringWindowArgs(
    start_time="2026-01-01T00:00:00Z", end_time="2026-01-02T00:00:00Z", recurrence="FREQ=DAILY"
)
# Patches of the control plane alone go on, until Google's support of the version ends; then GKE upgrades to
# the next, for which it holds again. A fixed start and an end that GKE knows are the same in every preview
# (assumption held-upgrades).
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions
_NO_UPGRADE: Final = gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
    exclusion_name="no-upgrade-during-a-run",
    start_time="2026-01-01T00:00:00Z",
    exclusion_options=gcp.container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
        scope="NO_MINOR_OR_NODE_UPGRADES", end_time_behavior="UNTIL_END_OF_SUPPORT"
    ),
)

# With logs and metrics of its Ray clusters (assumption ray-log-collector-user).
RAY_OPERATOR: Final = gcp.container.ClusterAddonsConfigRayOperatorConfigArgs(
    enabled=True,
    ray_cluster_logging_config=(
        gcp.container.ClusterAddonsConfigRayOperatorConfigRayClusterLoggingConfigArgs(enabled=True)
    ),
    ray_cluster_monitoring_config=(
        gcp.container.ClusterAddonsConfigRayOperatorConfigRayClusterMonitoringConfigArgs(enabled=True)
    ),
)


class ClusterArgs(Args):
    """Arguments of every `Cluster`.

    Args:
        location: Region; of a Standard cluster also a zone, which its control plane is then in alone.
        zones: Zones of a Standard cluster's nodes, all in its location.
        network: Id of the VPC.
        subnet: Id of the subnet, with the `KUBERNETES_RANGES` of components.network.
        images: Images that the nodes pull; the node identity may read their repositories.
        ray_operator: Whether GKE runs the Ray operator in it, with logs and metrics of Ray clusters.
        hold_upgrades: Whether GKE, by itself, upgrades neither the minor version nor nodes.
        cluster_name: Start of its name, at most 32 characters; Pulumi adds seven hexadecimal digits.
    """

    project: pulumi.Input[str]
    location: str
    zones: Sequence[str] = ()
    network: pulumi.Input[str]
    subnet: pulumi.Input[str]
    labels: Mapping[str, str]
    images: Sequence[Image]
    ray_operator: bool = False
    hold_upgrades: bool = True
    cluster_name: str | None = None


class Cluster(Component[ClusterArgs]):
    """A private-node cluster whose nodes may do no more than nodes must.

    Attributes:
        resource: The cluster itself, for what is part of it.
        node_account: Address of the service account that its nodes run as.
        pulls: What a pod whose image is in a private repository must wait for.
        nodes: What a pod that runs on any node must wait for; nothing where the cluster creates nodes
            for pods.
        connect: Command that makes kubectl talk to it.
        monitoring: Address of the console's page with its metrics, those of its GPUs or TPUs too.
        workload_pool: Workload identity pool that its service accounts live in.
    """

    group = "cluster"
    # The cluster, its nodes' identity, what they pull, and through what they stream it.
    apis = (
        "container.googleapis.com",
        "iam.googleapis.com",
        "cloudresourcemanager.googleapis.com",
        "artifactregistry.googleapis.com",
        "containerfilesystem.googleapis.com",
    )
    # Where nodes and the Ray operator's add-ons report to; nothing waits for them.
    reporting_apis: ClassVar = ("logging.googleapis.com", "monitoring.googleapis.com")
    # Properties whose difference from the state is none.
    _not_compared: ClassVar[list[str] | None] = None

    def _declare(self, name: str, args: ClusterArgs) -> None:
        node_account = gcp.serviceaccount.Account(
            f"{name}-nodes",
            project=args.project,
            display_name=f"Nodes of the {name} cluster",
            opts=pulumi.ResourceOptions(parent=self),
        )
        node_roles = [
            gcp.projects.IAMMember(
                f"{name}-{binding}",
                project=args.project,
                role=role,
                member=node_account.member,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for binding, role in _NODE_ROLES.items()
        ]
        self.location = args.location
        self.labels = args.labels
        self.node_account: pulumi.Output[str] = node_account.email
        self.pulls: list[pulumi.Resource] = self._pulls(name, args, node_account)
        # Not the input `name`: where the program states it, the old cluster must go before the new one comes,
        # and before it the objects in it, to which the engine has closed its connection by then. An automatic
        # name begins with the logical one. https://github.com/pulumi/pulumi/issues/14650
        self.resource = gcp.container.Cluster(
            args.cluster_name or f"{name}-cluster",
            project=args.project,
            location=args.location,
            network=args.network,
            subnetwork=args.subnet,
            ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=PODS_RANGE, services_secondary_range_name=SERVICES_RANGE
            ),
            private_cluster_config=gcp.container.ClusterPrivateClusterConfigArgs(enable_private_nodes=True),
            release_channel=gcp.container.ClusterReleaseChannelArgs(channel=_RELEASE_CHANNEL),
            maintenance_policy=gcp.container.ClusterMaintenancePolicyArgs(
                recurring_window=_ANY_TIME, maintenance_exclusions=[_NO_UPGRADE] if args.hold_upgrades else []
            ),
            resource_labels=args.labels,
            # By default `pulumi destroy` would fail; what must not be lost is in the bucket, which has a
            # protection of its own.
            deletion_protection=False,
            **self._properties(args),
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=node_roles, ignore_changes=self._not_compared
            ),
        )
        self._provider = self._kubernetes_provider(name, self.resource)
        self.nodes: list[pulumi.Resource] = self._nodes(name, args)
        self.connect: pulumi.Output[str] = pulumi.Output.format(
            "gcloud container clusters get-credentials {0} --location {1} --project {2}",
            self.resource.name,
            self.resource.location,
            self.resource.project,
        )
        self.monitoring: pulumi.Output[str] = pulumi.Output.format(
            "https://console.cloud.google.com/kubernetes/clusters/details/{0}/{1}/observability?project={2}",
            self.resource.location,
            self.resource.name,
            self.resource.project,
        )
        self.workload_pool: pulumi.Output[str] = pulumi.Output.concat(self.resource.project, ".svc.id.goog")

    @abstractmethod
    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        """What clusters of the kind have besides, by the names of the SDK's arguments."""

    def _nodes(self, name: str, args: ClusterArgs) -> list[pulumi.Resource]:
        """Declares the nodes that every workload counts on."""
        return []

    def inside(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of a Kubernetes object in this cluster.

        Args:
            parent: The component that declares the object.
            depends_on: What the object waits for without naming it in a field.
        """
        return pulumi.ResourceOptions(
            parent=parent,
            provider=self._provider,
            # Deleting the cluster deletes its objects; asking for each first would wait for
            # finalizers of operators that are going away too.
            deleted_with=self.resource,
            depends_on=list(depends_on),
        )

    def _pulls(
        self, name: str, args: ClusterArgs, node_account: gcp.serviceaccount.Account
    ) -> list[pulumi.Resource]:
        repositories = {image.repository for image in args.images if image.repository}
        return [
            gcp.artifactregistry.RepositoryIamMember(
                f"{name}-nodes-pull-{repository.name}",
                project=repository.project,
                location=repository.location,
                repository=repository.name,
                role="roles/artifactregistry.reader",
                member=node_account.member,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for repository in sorted(repositories, key=lambda each: (each.location, each.name))
        ]

    def _kubernetes_provider(self, name: str, cluster: gcp.container.Cluster) -> kubernetes.Provider:
        return kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=pulumi.Output.all(
                name=cluster.name,
                endpoint=cluster.endpoint,
                certificate=cluster.master_auth.cluster_ca_certificate,
            ).apply(lambda values: json.dumps(Manifest(MANIFESTS / "kubeconfig.yaml", values).tree)),
            # Objects belong to the cluster, not to the text of the kubeconfig.
            cluster_identifier=cluster.self_link,
            # What `up --refresh` puts right was written by somebody else: a conflict, unless it is forced.
            # https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/
            enable_patch_force=True,
            # As for the objects: nothing to ask the provider once the cluster is gone.
            opts=pulumi.ResourceOptions(parent=self, deleted_with=cluster),
        )


class AutopilotCluster(Cluster):
    """A cluster that creates nodes for the pods there are."""

    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        # On Autopilot every node is created with these defaults.
        defaults = gcp.container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs(
            service_account=self.node_account, oauth_scopes=list(NODE_SCOPES)
        )
        addons = gcp.container.ClusterAddonsConfigArgs(ray_operator_configs=[RAY_OPERATOR])
        return {
            "enable_autopilot": True,
            "cluster_autoscaling": gcp.container.ClusterClusterAutoscalingArgs(
                auto_provisioning_defaults=defaults
            ),
            "addons_config": addons if args.ray_operator else None,
        }
