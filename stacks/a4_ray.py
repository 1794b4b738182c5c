"""a4-ray: fine-tunes Gemma 3 for vision on A4 nodes (8 B200 each), with Ray on GKE Autopilot."""

from typing import Literal

import pulumi
from pydantic import Field

from components.fingerprint import joined
from components.ray import RAY_WORKERS, RayCluster, RayClusterArgs, RayJob, RayJobArgs, RayWorkers
from stacks import pins
from stacks.a4 import GPUS_PER_NODE, POD_SCRATCH, POD_SHARED_MEMORY, POD_SIZE, A4Settings, pod_selector
from stacks.monitoring import GPUS, gke_monitoring
from stacks.platform import Site
from stacks.served_run import command_to_serve
from stacks.training import AwaitableSettings, GemmaRecipe, GemmaSettings, run_name, training_platform


class Settings(GemmaSettings, A4Settings, AwaitableSettings):
    """Settings of a4-ray."""

    gpus = GPUS_PER_NODE
    recipe: GemmaRecipe = "gemma-3-4b-vision"
    workers: int = Field(2, ge=1, le=64, description="Number of A4 nodes. Each has 8 B200 GPUs.")
    ray_cluster: Literal["perJob", "shared"] = Field(
        "perJob",
        description="Life of the Ray cluster: `perJob` deletes it with its job, `shared` keeps it for more "
        "jobs.",
    )


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    settings.warn_of_missing_nodes(settings.workers)
    settings.warn_of_memory()
    site = Site(settings)
    platform = training_platform(
        site,
        settings,
        namespace="ray",
        ray_operator=True,
    )
    ray = RayClusterArgs(
        namespace=platform.namespace,
        ray_version=pins.RAY_VERSION,
        image=platform.image,
        service_account=platform.account.account_name,
        workers=_workers(settings),
        tokens=platform.tokens,
        depends_on=platform.depends_on,
    )
    run = run_name(settings, platform.code, platform.image, *settings.sized(settings.workers))
    job = RayJob(
        site.name,
        RayJobArgs(
            job_name=settings.recipe_name,
            entrypoint=joined(
                f"python -m finetune ray --recipe {settings.recipe_name} --storage gs://",
                platform.bucket.path_in_command,
                f" --run {run} --workers {settings.workers * GPUS_PER_NODE} --accelerator B200",
                *(f" {argument}" for argument in settings.run_arguments),
            ),
            code=platform.code,
            cluster=RayCluster(site.name, ray) if settings.ray_cluster == "shared" else ray,
            wait=settings.wait_for_training,
            deadline_hours=settings.capacity.deadline_hours(settings.max_run_hours),
        ),
    )
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            site, settings, platform, [*GPUS, "training", "tokens", "ray"], trainers=RAY_WORKERS
        ),
        **job.commands(),
        **platform.bucket.commands(run, *settings.trained_recipe.results),
        "serveRun": command_to_serve(settings, platform.bucket, run),
        "result": job.result,
    }


def _workers(settings: Settings) -> RayWorkers:
    """One pod per A4 node, with all GPUs of the node."""
    return RayWorkers(
        group="b200",
        replicas=settings.workers,
        capacity=settings.capacity,
        size=POD_SIZE,
        node_selector=pod_selector(settings.capacity),
        shared_memory=POD_SHARED_MEMORY,
        scratch=POD_SCRATCH,
    )
