"""a4-accelerate: fine-tunes Gemma 3 12B for text-to-SQL on A4 nodes (8 B200 each)."""

import pulumi
from pydantic import Field, ValidationInfo, field_validator

from components.cluster.capacity import CapacityType
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
from stacks.nodes.placement import JobOfPods, needs_queue, place
from stacks.nodes.queue import images_of_kueue
from stacks.nodes.rdma import declare_network
from stacks.nodes.requested_nodes import request_nodes, standard_nodes
from stacks.platform import Site
from stacks.serving.served_run import command_to_serve
from stacks.settings.capacity import CapacityListOrQueue
from stacks.training.platform import AwaitableSettings, GemmaRecipe, run_name, training_platform
from stacks.training.torchrun import SERVICE, TorchrunNodes, TorchrunSettings, torchrun_job


class Settings(A4Settings, TorchrunSettings, AwaitableSettings):
    """Settings of a4-accelerate."""

    gpus = GPUS_PER_NODE
    takes_a_queue = True
    capacity_types: CapacityListOrQueue = (CapacityType.RESERVATION,)
    recipe: GemmaRecipe = "gemma-3-12b-text-to-sql"
    nodes: int = Field(
        1,
        ge=1,
        le=64,
        validate_default=True,
        description="Number of A4 nodes, each with 8 B200 GPUs. The recipe gives the batch of one node. With "
        "more nodes a step has the same rows, and each GPU has fewer of them.",
    )

    @field_validator("nodes")
    @classmethod
    def _share_a_step(cls, nodes: int, info: ValidationInfo) -> int:
        cls.require_one_network(info.data, nodes)
        if "recipe" in info.data:
            recipe = cls.recipe_with(info.data["recipe"], info.data.get("recipe_set", {}))
            try:
                recipe.shared_by(nodes * GPUS_PER_NODE, GPUS_PER_NODE)
            except ValueError as error:
                raise ValueError(
                    f"{error}; choose another number of nodes, or set training.batch_size in recipeSet"
                ) from None
        return nodes


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    settings.warn_of_missing_nodes(settings.nodes)
    settings.warn_of_memory()
    site = Site(settings)
    standard = standard_nodes(settings)
    queued = standard is not None or needs_queue(settings, settings.nodes)
    platform = training_platform(
        site,
        settings,
        namespace="training",
        nodes=standard,
        more_images=images_of_kueue(site, settings) if queued else (),
    )
    together = JobOfPods(pods=settings.nodes, framework="batch/job", image=platform.image)
    if standard:
        placement = request_nodes(
            site, settings, platform, MACHINE, together, standard, settings.max_run_hours
        )
    else:
        network = declare_network(site, settings, platform)
        placement = place(site, settings, platform, MACHINE, NODE_LABELS, together, network)
    run = run_name(settings, platform.code, platform.image, *settings.sized(settings.nodes))
    nodes = TorchrunNodes(
        count=settings.nodes,
        size=POD_SIZE,
        selector=placement.selector,
        shared_memory=POD_SHARED_MEMORY,
        scratch=POD_SCRATCH,
        grace_seconds=600,
        network=placement.network,
    )
    job = torchrun_job(
        site,
        settings,
        platform,
        nodes,
        run,
        wait=settings.wait_for_training,
        arguments=[f"--batch-for={GPUS_PER_NODE}"],
        queue_labels=placement.queue_labels,
        depends_on=placement.depends_on,
    )
    charts = [*GPUS, *placement.charts, "training", "tokens"]
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(site, settings, platform, charts, trainers={"app": SERVICE}),
        **placement.outputs,
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *settings.trained_recipe.results),
        "serveRun": command_to_serve(settings, platform.bucket, run),
    }
