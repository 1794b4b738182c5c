"""a4-ray: Gemma 3 vision fine-tuning on A4 nodes (B200), with Ray on GKE Autopilot."""

from typing import Final

import pulumi

from components.fingerprint import fingerprint
from components.ray_cluster import RayCluster, RayClusterArgs
from components.ray_job import RayJob, RayJobArgs
from stacks import pins
from stacks.gke_training import (
    INGRESS_FROM_INSIDE,
    INGRESS_FROM_RAY_PLATFORM,
    WORKLOADS,
    lay_ground,
    warn_of_missing_a4,
)
from stacks.settings import A4Ray

NAME: Final = "a4-ray"
MANIFESTS: Final = WORKLOADS / NAME
GPUS_PER_WORKER: Final = 8


def build(settings: A4Ray) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy, in the order an operator needs them."""
    warn_of_missing_a4(settings.capacity)
    ground = lay_ground(
        NAME,
        settings,
        namespace="ray",
        network_policies=[INGRESS_FROM_INSIDE, INGRESS_FROM_RAY_PLATFORM],
        ray_operator=True,
    )
    ray = RayClusterArgs(
        namespace=ground.namespace,
        manifest=MANIFESTS / "ray-cluster.yaml",
        values={
            "rayVersion": pins.RAY_VERSION,
            "serviceAccount": ground.account.account_name,
            "workers": settings.workers,
            "capacity": settings.capacity.pod_selectors(),
        },
        image=ground.image,
        depends_on=ground.depends_on,
    )
    # The same code on the same libraries and as many GPUs is the same run, and resumes.
    content = fingerprint(ground.code.digest, ground.image.fingerprint, settings.workers)
    run = f"{settings.recipe}-{content}"
    job = RayJob(
        NAME,
        RayJobArgs(
            job_name=settings.recipe,
            manifest=MANIFESTS / "ray-job.yaml",
            values={
                "recipe": settings.recipe,
                "bucket": ground.bucket.bucket_name,
                "run": run,
                "gpus": settings.workers * GPUS_PER_WORKER,
                "image": ground.image.uri,
                "code": ground.code.volume,
            },
            cluster=RayCluster(NAME, ray) if settings.shared_ray_cluster else ray,
            depends_on=[ground.code.access],
            wait=settings.wait_for_training,
            max_hours=settings.max_run_hours,
        ),
    )
    return {
        "connect": ground.cluster.connect,
        **job.commands(),
        **ground.bucket.commands(run),
        "result": job.result,
    }
