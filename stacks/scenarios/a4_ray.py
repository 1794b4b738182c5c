"""a4-ray: fine-tunes Gemma 3 for vision on A4 nodes (8 B200 each), with Ray on GKE Autopilot."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import pulumi
from pydantic import Field

from cloud.machines import B200
from components.base.fingerprint import joined
from components.base.pod_patch import PodPatch
from components.workload.ray import RAY_WORKERS, RayCluster, RayClusterArgs, RayJob, RayJobArgs, RayWorkers
from stacks import pins
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.a4 import (
    GPUS_PER_NODE,
    POD_SCRATCH,
    POD_SHARED_MEMORY,
    POD_SIZE,
    A4Capacity,
    a4_nodes,
    place_on_a4,
)
from stacks.nodes.placement import Placement
from stacks.platform import StackContext
from stacks.program.environment import variables
from stacks.serving.served_run import command_to_serve
from stacks.settings import Bucket, Cluster, ConfigModel, Default, Project, rule
from stacks.training.platform import (
    TrainingPlatform,
    WaitForTraining,
    run_name,
    training_platform,
    warn_of_spot,
)
from stacks.training.settings import FineTuning, Fit, TrainingImage
from stacks.training.trial import Trial, declare_trial


class Settings(ConfigModel):
    """Settings of a4-ray."""

    project: Project
    capacity: A4Capacity
    workers: int = Field(2, ge=1, le=64, description="Number of A4 nodes. Each has 8 B200 GPUs.")
    training: Annotated[FineTuning, Default("recipe", "gemma-3-4b-vision")]
    trial: Trial = True
    wait_for_training: WaitForTraining = False
    ray_cluster: Literal["perJob", "shared"] = Field(
        "perJob",
        description="Life of the Ray cluster: `perJob` deletes it with its job, `shared` keeps it for more "
        "jobs.",
    )
    image: TrainingImage
    bucket: Bucket
    cluster: Cluster

    @property
    def fit(self) -> Fit:
        """Whether a step fits into the memory of a node's GPUs."""
        return self.training.fit_on(B200, GPUS_PER_NODE)

    @rule("recipe")
    def _recipe_fits_the_gpus(self) -> None:
        self.fit.check()

    @rule("workers")
    def _workers_are_in_one_zone(self) -> None:
        self.capacity.require_one_network(self.workers)

    @rule("rayCluster")
    def _cluster_can_be_moved(self) -> None:
        if self.ray_cluster == "shared" and a4_nodes(self.capacity, self.workers).moves:
            raise ValueError(
                "a list of capacities moves a job with its nodes, and a shared cluster keeps them; choose "
                "perJob, or one capacity.type"
            )


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    capacity, training = settings.capacity, settings.training
    capacity.warn_of_missing_nodes(settings.workers)
    settings.fit.warn()
    warn_of_spot(capacity.capacity_types)
    stack = StackContext(settings.project)
    nodes = a4_nodes(capacity, settings.workers)
    platform = training_platform(
        stack,
        training,
        settings.image,
        settings.bucket,
        settings.cluster,
        namespace="ray",
        ray_operator=True,
        more_images=nodes.images(stack),
    )
    placement = place_on_a4(stack, capacity, nodes, platform, "ray.io/rayjob")
    run = run_name(training, platform.code, platform.image, *training.sized(settings.workers))
    # With a queue, Kueue's webhook looks at each Job of the namespace.
    trial = declare_trial(
        stack, training, platform, run, tries=settings.trial, depends_on=placement.depends_on
    )
    ray = _cluster(settings, platform, placement, trial)
    job = RayJob(
        stack.name,
        RayJobArgs(
            job_name=training.recipe_name,
            entrypoint=joined(
                f"python -m finetune ray --recipe {training.recipe_name} --storage gs://",
                platform.bucket.path_in_command,
                f" --run {run} --workers {settings.workers * GPUS_PER_NODE} --accelerator B200",
                *(f" {argument}" for argument in training.run_arguments),
            ),
            code=platform.code,
            cluster=RayCluster(stack.name, ray) if settings.ray_cluster == "shared" else ray,
            wait=settings.wait_for_training,
            queue_labels=placement.queue_labels,
            deadline_hours=capacity.chain.deadline_hours(training.max_run_hours),
        ),
    )
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            stack,
            platform,
            [*GPUS, *placement.charts, "training", "tokens", "ray"],
            trainers=RAY_WORKERS,
        ),
        **placement.outputs,
        **job.commands(),
        **platform.bucket.commands(run, *training.trained_recipe.results),
        "serveRun": command_to_serve(settings.project, platform.bucket, run),
        "result": job.result,
    }


def _cluster(
    settings: Settings, platform: TrainingPlatform, placement: Placement, trial: Sequence[pulumi.Resource]
) -> RayClusterArgs:
    """The Ray cluster, which waits for the trial: its pods ask for the accelerators."""
    return RayClusterArgs(
        namespace=platform.namespace,
        ray_version=pins.RAY_VERSION,
        image=platform.image,
        service_account=platform.account.account_name,
        workers=_workers(settings, placement.selector, placement.patch),
        variables=[*platform.tokens, *variables(a4_nodes(settings.capacity, settings.workers).price)],
        depends_on=[*platform.depends_on, *placement.depends_on, *trial],
    )


def _workers(settings: Settings, selector: Mapping[str, str], patch: PodPatch) -> RayWorkers:
    """One pod per A4 node, with all GPUs of the node."""
    return RayWorkers(
        group="b200",
        replicas=settings.workers,
        annotations=settings.capacity.chain.pod_annotations(),
        size=POD_SIZE,
        node_selector=selector,
        shared_memory=POD_SHARED_MEMORY,
        scratch=POD_SCRATCH,
        patch=patch,
    )
