"""What a training job on GKE stands on, whatever runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi

from components.autopilot_cluster import AutopilotCluster
from components.bucket import Bucket, BucketArgs
from components.capacity import Capacity, CapacityType
from components.cluster import Cluster, ClusterArgs
from components.hugging_face_token import HuggingFaceToken, HuggingFaceTokenArgs
from components.image import Image
from components.namespace import Namespace, NamespaceArgs
from components.network import KUBERNETES_RANGES, Network, NetworkArgs
from components.node_pool import NodePool
from components.project_services import ProjectServices, ProjectServicesArgs
from components.service_account import ServiceAccount, ServiceAccountArgs
from components.standard_cluster import StandardCluster, StandardClusterArgs
from components.training_code import TrainingCode, TrainingCodeArgs
from stacks.settings import GkeTraining
from stacks.training_image import training_image

WORKLOADS: Final = Path(__file__).parent.parent / "workloads"
FINETUNE: Final = WORKLOADS / "finetune"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What trains.

    Args:
        folder: Folder with the Dockerfile of its image; its name is the image's and the service account's.
        package: Folder of its Python package, which the pods get as their code.
        mounts_bucket: Whether it writes to the bucket as to a disk.
        tpu: Whether it runs on a TPU slice. Such a slice is in one zone, and then so is the whole cluster.
    """

    folder: Path
    package: Path
    mounts_bucket: bool = False
    tpu: bool = False


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The components that a job runs on.

    Args:
        labels: Labels of Google's resources.
        network: The network.
        cluster: The cluster.
        namespace: Namespace of the job.
        account: Service account of its pods.
        bucket: Where they write.
        code: What they run.
        image: What they run it in.
        depends_on: Everything that pods which train must find in place.
    """

    labels: dict[str, str]
    network: Network
    cluster: Cluster
    namespace: Namespace
    account: ServiceAccount
    bucket: Bucket
    code: TrainingCode
    image: Image
    depends_on: list[pulumi.Resource]


def warn_of_missing_a4(capacity: Capacity) -> None:
    """Says in advance what would show as pods that stay pending.

    https://docs.cloud.google.com/cluster-director/docs/choose-consumption-option
    """
    if capacity.type is CapacityType.ON_DEMAND:
        pulumi.log.warn(
            "capacity.type onDemand: Google offers A4 by reservation, flex-start and spot; "
            "the pods may stay pending"
        )


def lay_ground(
    name: str,
    settings: GkeTraining,
    *,
    namespace: str,
    network_policies: Sequence[Path],
    ray_operator: bool = False,
    zones: Sequence[str] = (),
    workload: Workload | None = None,
) -> Ground:
    """Declares image, cluster, namespace, identity, bucket, code and, if the settings have one, the token.

    Args:
        name: Name of the scenario; starts the name of everything.
        settings: The stack's settings.
        namespace: Kubernetes namespace of the job.
        network_policies: Manifests of the namespace's NetworkPolicies.
        ray_operator: Whether the cluster has the Ray operator.
        zones: Zones of a Standard cluster; without them it is an Autopilot cluster.
        workload: What trains; by default the fine-tuning of Gemma models.
    """
    workload = workload or Workload(folder=FINETUNE, package=FINETUNE)
    labels = {"stack": settings.stack, "scenario": name}
    apis = ProjectServices(name, ProjectServicesArgs(project=settings.project))
    apis.enable(*Cluster.reporting_apis)
    cluster_apis = StandardCluster.apis if zones else AutopilotCluster.apis
    tpu_apis = NodePool.tpu_apis if workload.tpu else ()
    image = training_image(name, settings, apis=apis, labels=labels, context=workload.folder)
    network = Network(
        name,
        NetworkArgs(
            project=apis.project_with(*Network.apis),
            region=settings.region,
            secondary_ranges=KUBERNETES_RANGES,
        ),
    )
    cluster = _cluster(
        name,
        ClusterArgs(
            project=apis.project_with(*cluster_apis, *tpu_apis),
            location=zones[0] if workload.tpu else settings.region,
            network=network.network_id,
            subnet=network.subnet_id,
            labels=labels,
            images=[image],
            ray_operator=ray_operator,
            cluster_name=settings.cluster_name,
        ),
        zones,
    )
    inside = Namespace(
        name,
        NamespaceArgs(cluster=cluster, namespace=namespace, network_policies=network_policies),
    )
    account = ServiceAccount(name, ServiceAccountArgs(namespace=inside, account_name=workload.folder.name))
    bucket = Bucket(
        name,
        BucketArgs(
            project=apis.project_with(*Bucket.apis),
            location=settings.region,
            labels=labels,
            writers={account.account_name: account.identity},
            force_destroy=settings.force_destroy,
            hierarchical=workload.mounts_bucket,
            bucket_name=settings.bucket_name,
        ),
    )
    return Ground(
        labels=labels,
        network=network,
        cluster=cluster,
        namespace=inside,
        account=account,
        bucket=bucket,
        image=image,
        code=TrainingCode(name, TrainingCodeArgs(namespace=inside, package=workload.package)),
        depends_on=[
            account.access,
            *_token(name, settings, apis, labels, inside),
            network.egress,
            *bucket.access,
            *cluster.pulls,
        ],
    )


def _token(
    name: str, settings: GkeTraining, apis: ProjectServices, labels: dict[str, str], inside: Namespace
) -> list[pulumi.Resource]:
    """The Hugging Face token where pods find it, if there is one."""
    if settings.hf_token is None:
        return []
    token = HuggingFaceToken(
        name,
        HuggingFaceTokenArgs(
            project=apis.project_with(*HuggingFaceToken.apis),
            token=settings.hf_token,
            secret_id=f"{settings.stack}-hugging-face-token",
            labels=labels,
            namespace=inside,
        ),
    )
    return token.access


def _cluster(name: str, args: ClusterArgs, zones: Sequence[str]) -> Cluster:
    if zones:
        return StandardCluster(name, StandardClusterArgs(**vars(args), zones=zones))
    return AutopilotCluster(name, args)
