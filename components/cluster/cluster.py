"""GKE clusters: the base class of all clusters, and the Autopilot cluster."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.base.account import run_as
from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.cluster.control_plane import ControlPlane
from components.cluster.policies import ClusterPolicies
from components.image.image import Image, ImageRepository
from components.network.network import ClusterSubnet

# Roles of the nodes in the project, keyed by the end of the binding's name. They replace the Editor role of
# the default service account.
NODE_ROLES: Final[Mapping[str, str]] = {
    # Writes the node's logs, metrics and health.
    "nodes-role": "roles/container.defaultNodeServiceAccount",
    # For image streaming. Without it nodes pull every image completely, or fail (assumption image-streaming).
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming
    "nodes-usage": "roles/serviceusage.serviceUsageConsumer",
}
# Roles decide what a node's service account may do. Without these scopes it could not call an API at all.
NODE_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_RELEASE_CHANNEL: Final = "REGULAR"
# GKE offers the metrics of pods to autoscalers on this channel only, with a profile that reads metrics sooner
# (assumption metrics-of-pods).
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/expose-custom-metrics-autoscaling
_CHANNEL_WITH_METRICS_OF_PODS: Final = "RAPID"
_SOONER_METRICS: Final = gcp.container.ClusterPodAutoscalingArgs(hpa_profile="PERFORMANCE")
# GKE accepts an exclusion only beside a window. Without a policy the provider would leave old exclusions
# alone.
_ANY_TIME: Final = gcp.container.ClusterMaintenancePolicyRecurringWindowArgs(
    start_time="2026-01-01T00:00:00Z", end_time="2026-01-02T00:00:00Z", recurrence="FREQ=DAILY"
)
# Holds upgrades of nodes and minor versions. GKE still patches the control plane. When Google's support of
# the version ends, GKE upgrades to the next version, and the exclusion holds again. The start is fixed and
# GKE knows the end, so every preview shows the same values (assumption held-upgrades).
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions
_NO_UPGRADE: Final = gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
    exclusion_name="no-upgrade-during-a-run",
    start_time="2026-01-01T00:00:00Z",
    exclusion_options=gcp.container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
        scope="NO_MINOR_OR_NODE_UPGRADES", end_time_behavior="UNTIL_END_OF_SUPPORT"
    ),
)

# GKE's Ray operator, with logs and metrics of its Ray clusters (assumption ray-log-collector-user).
RAY_OPERATOR: Final = gcp.container.ClusterAddonsConfigRayOperatorConfigArgs(
    enabled=True,
    ray_cluster_logging_config=(
        gcp.container.ClusterAddonsConfigRayOperatorConfigRayClusterLoggingConfigArgs(enabled=True)
    ),
    ray_cluster_monitoring_config=(
        gcp.container.ClusterAddonsConfigRayOperatorConfigRayClusterMonitoringConfigArgs(enabled=True)
    ),
)
# What GKE measures: its own default on a cluster with GPUs, stated because the dashboards depend on it.
# Managed Prometheus collects what the pods show (assumption dcgm-package).
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/configure-metrics
_MONITORING: Final = gcp.container.ClusterMonitoringConfigArgs(
    enable_components=[
        *("SYSTEM_COMPONENTS", "STORAGE", "HPA", "POD", "DAEMONSET", "DEPLOYMENT", "STATEFULSET"),
        *("CADVISOR", "KUBELET", "DCGM", "JOBSET"),
    ],
    managed_prometheus=gcp.container.ClusterMonitoringConfigManagedPrometheusArgs(enabled=True),
)


def _encrypted_objects(kms_key: str | None) -> gcp.container.ClusterDatabaseEncryptionArgs | None:
    """The encryption of the objects in the cluster, such as Secrets. None means a key of Google's."""
    if not kms_key:
        return None
    return gcp.container.ClusterDatabaseEncryptionArgs(state="ENCRYPTED", key_name=kms_key)


class ClusterArgs(Args):
    """Arguments of every `Cluster`.

    Args:
        location: Region. A Standard cluster also takes a zone, which then holds its only control plane.
        zones: Zones of a Standard cluster's nodes, all in its location.
        subnet: The subnet of nodes, pods and services.
        images: Images that the nodes pull. The node identity gets access to their repositories.
        ray_operator: Whether GKE runs the Ray operator in the cluster, with logs and metrics of Ray clusters.
        scales_by_metrics_of_pods: Whether autoscalers may read what pods measure, such as waiting requests.
        hold_upgrades: Whether GKE is kept from upgrading nodes and the minor version by itself.
        control_plane: How clients reach the API server.
        knows_names: Whether network policies may name servers outside the network.
        kms_key: Path of the key that encrypts the objects in the cluster and the nodes' boot disks. None
            means a key of Google's.
        node_account: Address of an account that exists and has `NODE_ROLES`. None creates one.
        policies: What policies of an organisation ask of the cluster.
        cluster_name: Start of its name, at most 32 characters. Pulumi appends seven hexadecimal digits.
    """

    project: pulumi.Input[str]
    location: str
    zones: Sequence[str] = ()
    subnet: ClusterSubnet
    labels: Mapping[str, str]
    images: Sequence[Image]
    ray_operator: bool = False
    scales_by_metrics_of_pods: bool = False
    hold_upgrades: bool = True
    control_plane: ControlPlane = ControlPlane()
    knows_names: bool = False
    kms_key: str | None = None
    node_account: str | None = None
    policies: ClusterPolicies = ClusterPolicies()
    cluster_name: str | None = None


class Cluster(Component[ClusterArgs]):
    """A cluster with private nodes whose service account has only the roles that nodes need.

    Attributes:
        resource: The cluster itself, for resources that are part of it.
        node_account: E-mail address of the service account that the nodes run as.
        pulls: Bindings that a pod with an image from a private repository must wait for.
        nodes: Node pools that a pod for any node must wait for. Empty if the cluster creates nodes for pods.
        kms_key: Path of the key that encrypts the nodes' boot disks. None means a key of Google's.
        connect: Command that connects kubectl to the cluster.
        workload_pool: Workload identity pool of the cluster's service accounts.
    """

    # APIs for the cluster, for the nodes' identity and roles, for the images, and for image streaming.
    apis = (
        "container.googleapis.com",
        "iam.googleapis.com",
        "cloudresourcemanager.googleapis.com",
        "artifactregistry.googleapis.com",
        "containerfilesystem.googleapis.com",
    )
    # APIs that nodes and the Ray operator's add-ons report to. No resource waits for them.
    reporting_apis: ClassVar = ("logging.googleapis.com", "monitoring.googleapis.com")
    # Properties that are not compared with the state.
    _not_compared: ClassVar[Sequence[str]] = ()

    def _declare(self, name: str, args: ClusterArgs) -> None:
        nodes = run_as(
            f"{name}-nodes",
            args.node_account,
            project=args.project,
            display_name=f"Nodes of the {name} cluster",
            roles={f"{name}-{binding}": role for binding, role in NODE_ROLES.items()},
            parent=self,
        )
        self.location = args.location
        self.labels = args.labels
        self.kms_key = args.kms_key
        self.node_account: pulumi.Output[str] = nodes.email
        self.pulls: list[pulumi.Resource] = self._pulls(name, args, nodes.member)
        channel = _CHANNEL_WITH_METRICS_OF_PODS if args.scales_by_metrics_of_pods else _RELEASE_CHANNEL
        # `cluster_name` is the logical name, with which an automatic name begins, and not the input `name`.
        # With a fixed name a replacement must delete the old cluster first, and before it the objects in the
        # cluster. The engine has closed its connection to them by then.
        # https://github.com/pulumi/pulumi/issues/14650
        self.resource = gcp.container.Cluster(
            args.cluster_name or f"{name}-cluster",
            project=args.project,
            location=args.location,
            network=args.subnet.network,
            subnetwork=args.subnet.subnet,
            ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=args.subnet.pods,
                services_secondary_range_name=args.subnet.services,
            ),
            release_channel=gcp.container.ClusterReleaseChannelArgs(channel=channel),
            pod_autoscaling=_SOONER_METRICS if args.scales_by_metrics_of_pods else None,
            maintenance_policy=gcp.container.ClusterMaintenancePolicyArgs(
                recurring_window=_ANY_TIME, maintenance_exclusions=[_NO_UPGRADE] if args.hold_upgrades else []
            ),
            resource_labels=args.labels,
            monitoring_config=_MONITORING,
            enable_fqdn_network_policy=args.knows_names or None,
            database_encryption=_encrypted_objects(args.kms_key),
            # By default `pulumi destroy` would fail. The data is in the bucket, which has its own protection.
            deletion_protection=False,
            **args.control_plane.properties(),
            **args.policies.properties(args.project),
            **self._properties(args),
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=nodes.access, ignore_changes=self._ignored(args)
            ),
        )
        self._provider = self._kubernetes_provider(name, self.resource, args.control_plane)
        self.nodes: list[pulumi.Resource] = self._nodes(name, args)
        self.connect: pulumi.Output[str] = args.control_plane.connect(self.resource)
        self.workload_pool: pulumi.Output[str] = pulumi.Output.concat(self.resource.project, ".svc.id.goog")

    def _ignored(self, args: ClusterArgs) -> list[str]:
        """Properties that are not compared with the state.

        Policies with names stay on in a cluster that had them: to switch them off would replace it.
        """
        return [*self._not_compared, *([] if args.knows_names else ["enableFqdnNetworkPolicy"])]

    @abstractmethod
    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        """Arguments of the SDK's cluster that only this kind of cluster has."""

    def _nodes(self, name: str, args: ClusterArgs) -> list[pulumi.Resource]:
        """Declares the nodes that every workload relies on."""
        return []

    def inside(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of a Kubernetes object in this cluster.

        Args:
            parent: The component that declares the object.
            depends_on: Resources that the object waits for and that none of its fields refers to.
        """
        return pulumi.ResourceOptions(
            parent=parent,
            provider=self._provider,
            # Deleting the cluster deletes its objects. Deleting them one by one first would wait for the
            # finalizers of operators that are being deleted too.
            deleted_with=self.resource,
            depends_on=list(depends_on),
        )

    def _pulls(self, name: str, args: ClusterArgs, member: pulumi.Input[str]) -> list[pulumi.Resource]:
        bindings: dict[str, ImageRepository] = {}
        for repository in dict.fromkeys(image.repository for image in args.images if image.repository):
            binding = repository.name
            # The first repository keeps its short name when another one of that name comes or goes.
            if binding in bindings:
                binding = f"{repository.project}-{repository.location}-{binding}"
            bindings[binding] = repository
        return [
            gcp.artifactregistry.RepositoryIamMember(
                f"{name}-nodes-pull-{binding}",
                project=repository.project,
                location=repository.location,
                repository=repository.name,
                role="roles/artifactregistry.reader",
                member=member,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    # The stack's build, another stack or a person may have given an account that exists the
                    # same right. At Google that is one binding, and Artifact Registry takes no condition.
                    retain_on_delete=bool(args.node_account),
                ),
            )
            for binding, repository in bindings.items()
        ]

    def _kubernetes_provider(
        self, name: str, cluster: gcp.container.Cluster, control_plane: ControlPlane
    ) -> kubernetes.Provider:
        return kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=pulumi.Output.all(
                name=cluster.name,
                address=control_plane.address(cluster),
                authority=control_plane.authority(cluster),
            ).apply(lambda values: json.dumps(Manifest(MANIFESTS / "kubeconfig.yaml", values).tree)),
            # Objects belong to the cluster: another text of the kubeconfig must not replace them.
            cluster_identifier=cluster.self_link,
            # `up --refresh` overwrites fields that somebody else has written. Without force that is a
            # conflict.
            # https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/
            enable_patch_force=True,
            # As for the objects: once the cluster is deleted, nothing is left to ask the provider for.
            opts=pulumi.ResourceOptions(parent=self, deleted_with=cluster),
        )


class AutopilotCluster(Cluster):
    """A cluster that creates nodes for its pods."""

    def _properties(self, args: ClusterArgs) -> dict[str, Any]:
        # On Autopilot every node is created with these defaults.
        defaults = gcp.container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs(
            service_account=self.node_account, oauth_scopes=list(NODE_SCOPES), boot_disk_kms_key=args.kms_key
        )
        addons = gcp.container.ClusterAddonsConfigArgs(ray_operator_configs=[RAY_OPERATOR])
        return {
            "enable_autopilot": True,
            "cluster_autoscaling": gcp.container.ClusterClusterAutoscalingArgs(
                auto_provisioning_defaults=defaults
            ),
            "addons_config": addons if args.ray_operator else None,
        }
