"""a4-ray: fine-tunes Gemma 3 for vision on A4 nodes (8 B200 each), with Ray on GKE Autopilot."""

from typing import Literal

import pulumi
from pydantic import Field, ValidationInfo, field_validator

from components.base.fingerprint import joined
from components.workload.ray import RAY_WORKERS, RayCluster, RayClusterArgs, RayJob, RayJobArgs, RayWorkers
from stacks import pins
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.a4 import (
    GPUS_PER_NODE,
    MACHINE,
    NODE_LABELS,
    POD_SCRATCH,
    POD_SHARED_MEMORY,
    POD_SIZE,
    A4Settings,
)
from stacks.nodes.placement import JobOfPods, Placement, needs_queue, place
from stacks.nodes.queue import images_of_kueue
from stacks.nodes.rdma import declare_network
from stacks.platform import Site
from stacks.serving.served_run import command_to_serve
from stacks.training.platform import (
    AwaitableSettings,
    GemmaRecipe,
    GemmaSettings,
    run_name,
    training_platform,
)


class Settings(GemmaSettings, A4Settings, AwaitableSettings):
    """Settings of a4-ray."""

    gpus = GPUS_PER_NODE
    recipe: GemmaRecipe = "gemma-3-4b-vision"
    workers: int = Field(
        2, ge=1, le=64, validate_default=True, description="Number of A4 nodes. Each has 8 B200 GPUs."
    )
    ray_cluster: Literal["perJob", "shared"] = Field(
        "perJob",
        description="Life of the Ray cluster: `perJob` deletes it with its job, `shared` keeps it for more "
        "jobs.",
    )

    @field_validator("workers")
    @classmethod
    def _are_in_one_zone(cls, workers: int, info: ValidationInfo) -> int:
        cls.require_one_network(info.data, workers)
        return workers

    @field_validator("ray_cluster")
    @classmethod
    def _can_be_moved(cls, life: str, info: ValidationInfo) -> str:
        types, workers = info.data.get("capacity_types", ()), info.data.get("workers", 1)
        if life == "shared" and len(types) > 1 and workers > 1:
            raise ValueError(
                "a list of capacities moves a job with its nodes, and a shared cluster keeps them; choose "
                "perJob, or one capacity.type"
            )
        return life


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
        more_images=images_of_kueue(site, settings) if needs_queue(settings, settings.workers) else (),
    )
    together = JobOfPods(pods=settings.workers, framework="ray.io/rayjob", image=platform.image)
    network = declare_network(site, settings, platform)
    placement = place(site, settings, platform, MACHINE, NODE_LABELS, together, network)
    ray = RayClusterArgs(
        namespace=platform.namespace,
        ray_version=pins.RAY_VERSION,
        image=platform.image,
        service_account=platform.account.account_name,
        workers=_workers(settings, placement),
        tokens=platform.tokens,
        depends_on=[*platform.depends_on, *placement.depends_on],
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
            queue_labels=placement.queue_labels,
            deadline_hours=settings.chain.deadline_hours(settings.max_run_hours),
        ),
    )
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            site,
            settings,
            platform,
            [*GPUS, *placement.charts, "training", "tokens", "ray"],
            trainers=RAY_WORKERS,
        ),
        **placement.outputs,
        **job.commands(),
        **platform.bucket.commands(run, *settings.trained_recipe.results),
        "serveRun": command_to_serve(settings, platform.bucket, run),
        "result": job.result,
    }


def _workers(settings: Settings, placement: Placement) -> RayWorkers:
    """One pod per A4 node, with all GPUs of the node."""
    return RayWorkers(
        group="b200",
        replicas=settings.workers,
        annotations=settings.chain.pod_annotations(),
        size=POD_SIZE,
        node_selector=placement.selector,
        shared_memory=POD_SHARED_MEMORY,
        scratch=POD_SCRATCH,
        network=placement.network,
    )
