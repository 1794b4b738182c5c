"""a4-ray: Gemma 3 vision fine-tuning on A4 nodes (B200), with Ray on GKE Autopilot."""

from pathlib import Path
from typing import Final

import pulumi

from components.autopilot_cluster import AutopilotCluster, AutopilotClusterArgs
from components.bucket import Bucket, BucketArgs
from components.capacity import CapacityType
from components.fingerprint import fingerprint
from components.hugging_face_token import HuggingFaceToken, HuggingFaceTokenArgs
from components.namespace import Namespace, NamespaceArgs
from components.network import Network, NetworkArgs
from components.project_services import ProjectServices, ProjectServicesArgs
from components.ray_cluster import RayCluster, RayClusterArgs
from components.ray_job import RayJob, RayJobArgs
from components.service_account import ServiceAccount, ServiceAccountArgs
from components.training_code import TrainingCode, TrainingCodeArgs
from stacks import pins
from stacks.settings import A4Ray

NAME: Final = "a4-ray"
WORKLOADS: Final = Path(__file__).parent.parent / "workloads"
GPUS_PER_WORKER: Final = 8
APIS: Final = (
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "artifactregistry.googleapis.com",
    "storage.googleapis.com",
    "secretmanager.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
)


def build(settings: A4Ray) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    labels = {"stack": settings.stack, "scenario": NAME}
    if settings.capacity.type is CapacityType.ON_DEMAND:
        pulumi.log.warn(
            "capacity.type onDemand: Google offers A4 by reservation, flex-start and spot; "
            "the workers may stay pending"
        )
    apis = ProjectServices(NAME, ProjectServicesArgs(project=settings.project, apis=APIS))
    network = Network(
        NAME,
        NetworkArgs(project=apis.project_with("compute.googleapis.com"), region=settings.region),
    )
    cluster = AutopilotCluster(
        NAME,
        AutopilotClusterArgs(
            project=apis.project_with(
                "container.googleapis.com",
                "iam.googleapis.com",
                "cloudresourcemanager.googleapis.com",
                "artifactregistry.googleapis.com",
            ),
            location=settings.region,
            network=network.network_id,
            subnet=network.subnet_id,
            labels=labels,
            images=[settings.image],
            cluster_name=settings.cluster_name,
        ),
    )
    namespace = Namespace(
        NAME,
        NamespaceArgs(
            cluster=cluster,
            namespace="ray",
            network_policies=[
                WORKLOADS / "namespace" / "ingress-from-inside.yaml",
                WORKLOADS / NAME / "ingress-from-platform.yaml",
            ],
        ),
    )
    account = ServiceAccount(NAME, ServiceAccountArgs(namespace=namespace, account_name="finetune"))
    bucket = Bucket(
        NAME,
        BucketArgs(
            project=apis.project_with("storage.googleapis.com"),
            location=settings.region,
            labels=labels,
            writers={"finetune": account.identity},
            force_destroy=settings.force_destroy,
            bucket_name=settings.bucket_name,
        ),
    )
    token = HuggingFaceToken(
        NAME,
        HuggingFaceTokenArgs(
            project=apis.project_with("secretmanager.googleapis.com"),
            token=settings.hf_token,
            secret_id=f"{settings.stack}-hugging-face-token",
            labels=labels,
            namespace=namespace,
        ),
    )
    code = TrainingCode(NAME, TrainingCodeArgs(namespace=namespace, package=WORKLOADS / "finetune"))
    ray = RayClusterArgs(
        namespace=namespace,
        manifest=WORKLOADS / NAME / "ray-cluster.yaml",
        values={
            "rayVersion": pins.RAY_VERSION,
            "image": settings.image.uri,
            "serviceAccount": account.account_name,
            "workers": settings.workers,
            "capacity": settings.capacity.pod_selectors(),
        },
        needs=[account.access, token.access, network.egress, *bucket.access],
    )
    run = f"{settings.recipe}-{fingerprint(code.digest, settings.image.uri, settings.workers)}"
    job = RayJob(
        NAME,
        RayJobArgs(
            job_name=settings.recipe,
            manifest=WORKLOADS / NAME / "ray-job.yaml",
            values={
                "recipe": settings.recipe,
                "bucket": bucket.bucket_name,
                "run": run,
                "gpus": settings.workers * GPUS_PER_WORKER,
                "image": settings.image.uri,
                "code": code.volume,
            },
            cluster=RayCluster(NAME, ray) if settings.shared_ray_cluster else ray,
            needs=[code.access],
            wait=settings.wait_for_training,
        ),
    )
    return _outputs(cluster, namespace, bucket, job, run)


def _outputs(
    cluster: AutopilotCluster, namespace: Namespace, bucket: Bucket, job: RayJob, run: str
) -> dict[str, pulumi.Input[str]]:
    """Commands to copy, in the order in which an operator needs them."""
    kubectl = f"kubectl --namespace {namespace.namespace}"
    head = f"{kubectl} get rayjob {job.job_name} --output jsonpath={{.status.rayClusterName}}"
    return {
        "connect": pulumi.Output.concat(
            "gcloud container clusters get-credentials ",
            cluster.cluster_name,
            " --location ",
            cluster.location,
            " --project ",
            cluster.project,
        ),
        "watchJob": f"{kubectl} get rayjob {job.job_name} --watch",
        "watchTraining": f"{kubectl} logs --follow job/{job.job_name}",
        "openDashboard": f"{kubectl} port-forward service/$({head})-head-svc 8265:8265",
        "readMetrics": pulumi.Output.concat(
            "gcloud storage cat gs://", bucket.bucket_name, f"/{run}/metrics.jsonl"
        ),
        "listCheckpoints": pulumi.Output.concat("gcloud storage ls gs://", bucket.bucket_name, f"/{run}/"),
        "copyAdapter": pulumi.Output.concat(
            "gcloud storage cp --recursive gs://", bucket.bucket_name, f"/{run}/adapter ."
        ),
        "result": job.result,
    }
