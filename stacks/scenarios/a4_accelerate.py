"""a4-accelerate: fine-tunes Gemma 3 12B for text-to-SQL on A4 nodes (8 B200 each)."""

from typing import Annotated

import pulumi
from pydantic import Field

from cloud.machines import B200
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.a4 import (
    GPUS_PER_NODE,
    POD_SCRATCH,
    POD_SHARED_MEMORY,
    POD_SIZE,
    A4CapacityOrQueue,
    a4_nodes,
    place_on_a4,
)
from stacks.platform import StackContext
from stacks.serving.served_run import command_to_serve
from stacks.settings import Bucket, Cluster, ConfigModel, Default, Project, rule
from stacks.training.platform import WaitForTraining, run_name, training_platform, warn_of_spot
from stacks.training.settings import FineTuning, Fit, TrainingImage
from stacks.training.torchrun import SERVICE, ProgramNodes, torchrun_job
from stacks.training.trial import Trial, declare_trial


class Settings(ConfigModel):
    """Settings of a4-accelerate."""

    project: Project
    capacity: A4CapacityOrQueue
    nodes: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of A4 nodes, each with 8 B200 GPUs. The recipe gives the batch of one node. With "
        "more nodes a step has the same rows, and each GPU has fewer of them.",
    )
    training: Annotated[FineTuning, Default("recipe", "gemma-3-12b-text-to-sql")]
    trial: Trial = True
    wait_for_training: WaitForTraining = False
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

    @rule("nodes")
    def _nodes_are_in_one_zone(self) -> None:
        self.capacity.require_one_network(self.nodes)

    @rule("nodes")
    def _nodes_share_a_step(self) -> None:
        try:
            self.training.trained_recipe.shared_by(self.nodes * GPUS_PER_NODE, GPUS_PER_NODE)
        except ValueError as error:
            raise ValueError(
                f"{error}; choose another number of nodes, or set training.batch_size in recipeSet"
            ) from None


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    capacity, training = settings.capacity, settings.training
    capacity.warn_of_missing_nodes(settings.nodes)
    settings.fit.warn()
    warn_of_spot(capacity.capacity_types)
    stack = StackContext(settings.project)
    nodes = a4_nodes(capacity, settings.nodes)
    platform = training_platform(
        stack,
        training,
        settings.image,
        settings.bucket,
        settings.cluster,
        namespace="training",
        nodes=nodes.standard(stack.region),
        more_images=nodes.images(stack),
    )
    placement = place_on_a4(stack, capacity, nodes, platform, "batch/job", training.max_run_hours)
    run = run_name(training, platform.code, platform.image, *training.sized(settings.nodes))
    # With a queue, Kueue's webhook looks at each Job of the namespace.
    trial = declare_trial(
        stack, training, platform, run, tries=settings.trial, depends_on=placement.depends_on
    )
    pods = ProgramNodes(
        count=settings.nodes,
        size=POD_SIZE,
        selector=placement.selector,
        shared_memory=POD_SHARED_MEMORY,
        scratch=POD_SCRATCH,
        grace_seconds=600,
        patch=placement.patch,
    )
    job = torchrun_job(
        stack,
        training,
        capacity.chain,
        platform,
        pods,
        run,
        wait=settings.wait_for_training,
        price=nodes.price,
        arguments=[f"--batch-for={GPUS_PER_NODE}"],
        queue_labels=placement.queue_labels,
        depends_on=[*placement.depends_on, *trial],
    )
    charts = [*GPUS, *placement.charts, "training", "tokens"]
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(stack, platform, charts, trainers={"app": SERVICE}),
        **placement.outputs,
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *training.trained_recipe.results),
        "serveRun": command_to_serve(settings.project, platform.bucket, run),
    }
