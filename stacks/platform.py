"""The base of a scenario, whether or not it trains: APIs, network, cluster, namespace and identity."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi

from components.base.component import Component
from components.base.project_services import ProjectServices, ProjectServicesArgs
from components.cluster.cluster import AutopilotCluster, Cluster, ClusterArgs
from components.cluster.namespace import (
    EGRESS_TO_GOOGLE_AND_HUB,
    EGRESS_TO_HTTPS,
    EGRESS_TO_PLATFORM,
    INGRESS_FROM_INSIDE,
    Namespace,
    NamespaceArgs,
)
from components.cluster.policies import ClusterPolicies
from components.cluster.standard_cluster import NodePool, StandardCluster
from components.identity.identity import Identity, ServiceAccount, ServiceAccountArgs
from components.image.image import Image
from components.image.mirror import Mirror, MirrorArgs
from components.monitoring.monitoring import Monitoring, MonitoringArgs, Names
from components.monitoring.pod_metrics import INGRESS_TO_METRICS
from components.network.network import AddressRanges, ClusterSubnet, Network, NetworkArgs
from components.storage.bucket import Bucket, BucketArgs, ExistingBucket, ExistingBucketArgs, Storage
from components.workload.ray import INGRESS_FROM_PLATFORM
from stacks.settings.bucket import Bucket as BucketTopic
from stacks.settings.cluster import Cluster as ClusterTopic
from stacks.settings.cluster import Egress
from stacks.settings.project import Project
from stacks.settings.subnet import subnet_id

_EGRESS: Final[Mapping[Egress, Sequence[Path]]] = {
    "https": (EGRESS_TO_PLATFORM, EGRESS_TO_HTTPS),
    "googleAndHub": (EGRESS_TO_PLATFORM, EGRESS_TO_GOOGLE_AND_HUB),
    "open": (),
}
WORKLOADS: Final = Path(__file__).parent.parent / "workloads"


class StackContext:
    """A stack in its project: the names and labels of its resources, and what all of them need.

    Attributes:
        name: Name of the scenario, with which all logical names start.
        label: The stack's name, in characters that are valid in Google's labels and in secret ids.
        labels: Labels of all resources that Google bills.
        manifests: Folder of the scenario's own manifests.
        project: The settings of the project.
        region: Region of all resources.
        mirrored: What a resource must wait for that pulls from the stack's own repository of other
            registries' images. Empty if the stack has none.

    Args:
        project: The settings of the project.
        depends_on: Resources without which the stack creates nothing else.
    """

    def __init__(self, project: Project, depends_on: Sequence[pulumi.Resource] = ()) -> None:
        self.name = project.scenario
        self.label = re.sub(r"[^a-z0-9_-]", "-", pulumi.get_stack().lower())[:63]
        self.labels = {"stack": self.label, "scenario": self.name}
        self.manifests = WORKLOADS / self.name
        self.project, self.region = project, project.region
        self.services = ProjectServices(
            self.name,
            ProjectServicesArgs(project=project.project),
            # All resources of Google's wait for the APIs.
            pulumi.ResourceOptions(depends_on=depends_on) if depends_on else None,
        )
        self._mirror = self._declare_mirror() if project.mirror_id else None
        self.mirrored: list[pulumi.Resource] = [self._mirror.ready] if self._mirror else []

    def _declare_mirror(self) -> Mirror:
        return Mirror(
            self.name,
            MirrorArgs(
                project=self.project_for(Mirror),
                location=self.region,
                repository_id=self.project.mirror_id,
                labels=self.labels,
                kms_key=self.project.kms_key,
            ),
        )

    def reachable(self, image: Image) -> Image:
        """The image, with a repository that exists once the stack's own mirror does."""
        return self._mirror.serves(image) if self._mirror else image

    def project_for(self, *components: type[Component]) -> pulumi.Output[str]:
        """The project id, as an output that is known once the APIs of these components are enabled."""
        return self.services.project_with(*(api for component in components for api in component.apis))

    def bucket(
        self,
        bucket: BucketTopic,
        writers: Mapping[str, Identity],
        *,
        hierarchical: bool = False,
        soft_delete_days: int = 7,
    ) -> Storage:
        """The bucket for the runs, by its settings: the stack's own, or one that exists. See `BucketArgs`."""
        if bucket.bucket:
            return ExistingBucket(
                self.name,
                ExistingBucketArgs(
                    project=self.project_for(ExistingBucket),
                    bucket_name=bucket.bucket.removeprefix("gs://"),
                    # Another stack's runs are in another folder.
                    folder=pulumi.get_stack(),
                    writers=writers,
                ),
            )
        return Bucket(
            self.name,
            BucketArgs(
                project=self.project_for(Bucket),
                location=self.region,
                labels=self.labels,
                writers=writers,
                force_destroy=bucket.force_destroy,
                soft_delete_days=soft_delete_days,
                hierarchical=hierarchical,
                bucket_name=bucket.bucket_name,
                kms_key=self.project.kms_key,
            ),
        )

    def monitoring(self, charts: Sequence[str], alerts: Sequence[str], names: Names) -> Monitoring:
        """The dashboard, and the alerts where the settings have an address for them. See `MonitoringArgs`."""
        return Monitoring(
            self.name,
            MonitoringArgs(
                project=self.project_for(Monitoring),
                title=f"{self.name} ({self.label})",
                labels=self.labels,
                charts=charts,
                alerts=alerts,
                names=names,
                email=self.project.alert_email,
                status=f"python -m operations status --stack {pulumi.get_stack()}",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class StandardNodes:
    """The place of a Standard cluster and its nodes.

    Args:
        location: Region of the cluster, or its zone if everything is in one zone.
        zones: Zones of the nodes, all in the location.
        tpu_slice: Whether some of the nodes are a TPU slice.
    """

    location: str
    zones: Sequence[str]
    tpu_slice: bool = False

    @classmethod
    def with_tpu_slice(cls, zone: str) -> "StandardNodes":
        """Nodes with a TPU slice. A slice is in one zone, so the whole cluster is in that zone."""
        return cls(location=zone, zones=[zone], tpu_slice=True)


@dataclass(frozen=True, kw_only=True)
class GkePlatform:
    """A cluster, with the namespace and the service account of a scenario's pods.

    Args:
        subnet: Subnet of the cluster.
        account: Service account of the pods.
        depends_on: Resources that must exist before a pod starts.
    """

    subnet: ClusterSubnet
    cluster: Cluster
    namespace: Namespace
    account: ServiceAccount
    depends_on: list[pulumi.Resource]


def gke_platform(
    stack: StackContext,
    cluster: ClusterTopic,
    *,
    namespace: str,
    account: str,
    images: Sequence[Image],
    network_policies: Sequence[Path] = (),
    ray_operator: bool = False,
    scales_by_metrics_of_pods: bool = False,
    nodes: StandardNodes | None = None,
) -> GkePlatform:
    """Declares network, cluster, namespace and identity.

    Args:
        cluster: The settings of the cluster and its network.
        account: Name of the pods' Kubernetes service account.
        images: Images of the pods. The cluster's nodes get access to their repositories.
        network_policies: Manifests of policies for ingress. By default pods of the namespace reach each
            other, and the platform reaches Ray's pods. The settings decide about egress.
        scales_by_metrics_of_pods: See `ClusterArgs`.
        nodes: Place of a Standard cluster's nodes. None makes the cluster an Autopilot cluster.
    """
    stack.services.enable(*Cluster.reporting_apis)
    kind = StandardCluster if nodes else AutopilotCluster
    tpu_apis = NodePool.tpu_apis if nodes and nodes.tpu_slice else ()
    subnet = _cluster_subnet(stack, cluster)
    declared = kind(
        stack.name,
        ClusterArgs(
            project=stack.services.project_with(*kind.apis, *tpu_apis),
            location=nodes.location if nodes else stack.region,
            zones=nodes.zones if nodes else (),
            subnet=subnet,
            labels=stack.labels,
            images=images,
            ray_operator=ray_operator,
            scales_by_metrics_of_pods=scales_by_metrics_of_pods,
            hold_upgrades=cluster.hold_upgrades,
            control_plane=cluster.control_plane,
            kms_key=stack.project.kms_key,
            knows_names=cluster.egress == "googleAndHub",
            node_account=cluster.node_account,
            policies=_policies(stack.project, cluster),
            cluster_name=cluster.cluster_name,
        ),
    )
    policies = [*(network_policies or [INGRESS_FROM_INSIDE]), INGRESS_TO_METRICS]
    policies += [INGRESS_FROM_PLATFORM] if ray_operator else []
    inside = _namespace(stack, cluster, declared, namespace, policies)
    pods = ServiceAccount(stack.name, ServiceAccountArgs(namespace=inside, account_name=account))
    return GkePlatform(
        subnet=subnet,
        cluster=declared,
        namespace=inside,
        account=pods,
        depends_on=[pods.access, *subnet.egress, *declared.pulls],
    )


def _policies(project: Project, cluster: ClusterTopic) -> ClusterPolicies:
    return ClusterPolicies(
        binary_authorization=project.binary_authorization == "project",
        rbac_group=cluster.rbac_group,
        bulletins=cluster.security_bulletins,
    )


def _namespace(
    stack: StackContext, cluster: ClusterTopic, declared: Cluster, name: str, ingress: Sequence[Path]
) -> Namespace:
    """The namespace, with its policies for ingress and with that of the settings for egress."""
    return Namespace(
        stack.name,
        NamespaceArgs(
            cluster=declared,
            namespace=name,
            network_policies=[*ingress, *_EGRESS[cluster.egress]],
            internal_ranges=cluster.internal_ranges,
        ),
    )


def _cluster_subnet(stack: StackContext, cluster: ClusterTopic) -> ClusterSubnet:
    """The subnet of the settings, or one in a network of the stack's own."""
    subnet = subnet_id(cluster.subnet, stack.project)
    if subnet and cluster.network and cluster.pods_range and cluster.services_range:
        host = subnet.split("/")[1]
        return ClusterSubnet(
            network=f"projects/{host}/global/networks/{cluster.network}",
            subnet=subnet,
            pods=cluster.pods_range,
            services=cluster.services_range,
        )
    ranges = AddressRanges(
        machines=cluster.machine_addresses,
        pods=cluster.pod_addresses,
        services=cluster.service_addresses,
    )
    return Network(
        stack.name, NetworkArgs(project=stack.project_for(Network), region=stack.region, ranges=ranges)
    ).for_cluster()
