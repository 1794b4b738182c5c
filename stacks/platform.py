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
from components.cluster.standard_cluster import NodePool, StandardCluster
from components.identity.identity import Identity, ServiceAccount, ServiceAccountArgs
from components.image.image import Image
from components.image.mirror import Mirror, MirrorArgs
from components.monitoring.monitoring import Monitoring, MonitoringArgs, Names
from components.monitoring.pod_metrics import INGRESS_TO_METRICS
from components.network.network import ClusterSubnet
from components.storage.bucket import Bucket, BucketArgs, ExistingBucket, ExistingBucketArgs, Storage
from components.workload.ray import INGRESS_FROM_PLATFORM
from stacks.settings.network import cluster_subnet
from stacks.settings.shared_settings import BucketSettings, Egress, GkeSettings, StackSettings

_EGRESS: Final[Mapping[Egress, Sequence[Path]]] = {
    "https": (EGRESS_TO_PLATFORM, EGRESS_TO_HTTPS),
    "googleAndHub": (EGRESS_TO_PLATFORM, EGRESS_TO_GOOGLE_AND_HUB),
    "open": (),
}
WORKLOADS: Final = Path(__file__).parent.parent / "workloads"


class Site:
    """The project of a stack, and the names and labels of its resources.

    Attributes:
        name: Name of the scenario, with which all logical names start.
        stack: The stack's name, in characters that are valid in Google's labels and in secret ids.
        labels: Labels of all resources that Google bills.
        manifests: Folder of the scenario's own manifests.
        mirror: The stack's own repository in front of those that publish images, if it has one.

    Args:
        settings: The stack's settings.
        depends_on: Resources without which the stack creates nothing else.
    """

    def __init__(self, settings: StackSettings, depends_on: Sequence[pulumi.Resource] = ()) -> None:
        self.name = settings.scenario
        self.stack = re.sub(r"[^a-z0-9_-]", "-", pulumi.get_stack().lower())[:63]
        self.labels = {"stack": self.stack, "scenario": self.name}
        self.manifests = WORKLOADS / self.name
        self.services = ProjectServices(
            self.name,
            ProjectServicesArgs(project=settings.project),
            # All resources of Google's wait for the APIs.
            pulumi.ResourceOptions(depends_on=depends_on) if depends_on else None,
        )
        self._mirror = self._declare_mirror(settings) if settings.mirror_id else None
        # What pulls from the stack's own mirror must wait for it.
        self.mirror: list[pulumi.Resource] = [self._mirror.ready] if self._mirror else []

    def _declare_mirror(self, settings: StackSettings) -> Mirror:
        return Mirror(
            self.name,
            MirrorArgs(
                project=self.project_for(Mirror),
                location=settings.region,
                repository_id=settings.mirror_id,
                labels=self.labels,
                kms_key=settings.kms_key,
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
        writers: Mapping[str, Identity],
        readers: Mapping[str, Identity] | None = None,
        *,
        settings: BucketSettings,
        hierarchical: bool = False,
        soft_delete_days: int = 7,
    ) -> Storage:
        """The bucket for the runs, by the settings: the stack's own, or one that exists. See `BucketArgs`."""
        if settings.bucket:
            return ExistingBucket(
                self.name,
                ExistingBucketArgs(
                    project=self.project_for(ExistingBucket),
                    bucket_name=settings.bucket.removeprefix("gs://"),
                    # Another stack's runs are in another folder.
                    folder=pulumi.get_stack(),
                    writers=writers,
                    readers=readers or {},
                ),
            )
        return Bucket(
            self.name,
            BucketArgs(
                project=self.project_for(Bucket),
                location=settings.region,
                labels=self.labels,
                writers=writers,
                readers=readers or {},
                force_destroy=settings.force_destroy,
                soft_delete_days=soft_delete_days,
                hierarchical=hierarchical,
                bucket_name=settings.bucket_name,
                kms_key=settings.kms_key,
            ),
        )

    def monitoring(
        self, settings: StackSettings, charts: Sequence[str], alerts: Sequence[str], names: Names
    ) -> Monitoring:
        """The dashboard, and the alerts where the settings have an address for them. See `MonitoringArgs`."""
        return Monitoring(
            self.name,
            MonitoringArgs(
                project=self.project_for(Monitoring),
                title=f"{self.name} ({self.stack})",
                labels=self.labels,
                charts=charts,
                alerts=alerts,
                names=names,
                email=settings.alert_email,
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


def _network_policies(settings: GkeSettings, ingress: Sequence[Path], ray_operator: bool) -> list[Path]:
    """Manifests of the policies of a namespace. By default its pods reach each other."""
    policies = [*(ingress or [INGRESS_FROM_INSIDE]), INGRESS_TO_METRICS]
    if ray_operator:
        policies.append(INGRESS_FROM_PLATFORM)
    policies += _EGRESS[settings.egress]
    return policies


def gke_platform(
    site: Site,
    settings: GkeSettings,
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
        account: Name of the pods' Kubernetes service account.
        images: Images of the pods. The cluster's nodes get access to their repositories.
        network_policies: Manifests of policies for ingress. By default pods of the namespace reach each
            other, and the platform reaches Ray's pods. The settings decide about egress.
        scales_by_metrics_of_pods: See `ClusterArgs`.
        nodes: Place of a Standard cluster's nodes. None makes the cluster an Autopilot cluster.
    """
    site.services.enable(*Cluster.reporting_apis)
    kind = StandardCluster if nodes else AutopilotCluster
    tpu_apis = NodePool.tpu_apis if nodes and nodes.tpu_slice else ()
    subnet = cluster_subnet(site.name, settings, site.project_for)
    cluster = kind(
        site.name,
        ClusterArgs(
            project=site.services.project_with(*kind.apis, *tpu_apis),
            location=nodes.location if nodes else settings.region,
            zones=nodes.zones if nodes else (),
            subnet=subnet,
            labels=site.labels,
            images=images,
            ray_operator=ray_operator,
            scales_by_metrics_of_pods=scales_by_metrics_of_pods,
            hold_upgrades=settings.hold_upgrades,
            control_plane=settings.control_plane,
            kms_key=settings.kms_key,
            knows_names=settings.egress == "googleAndHub",
            node_account=settings.accounts.get("nodes"),
            cluster_name=settings.cluster_name,
        ),
    )
    policies = _network_policies(settings, network_policies, ray_operator)
    inside = Namespace(
        site.name, NamespaceArgs(cluster=cluster, namespace=namespace, network_policies=policies)
    )
    pods = ServiceAccount(site.name, ServiceAccountArgs(namespace=inside, account_name=account))
    return GkePlatform(
        subnet=subnet,
        cluster=cluster,
        namespace=inside,
        account=pods,
        depends_on=[pods.access, *subnet.egress, *cluster.pulls],
    )
