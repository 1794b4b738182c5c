"""neutral: a fine-tune and a server of models on a few L4, for tests that are about no scenario."""

from typing import Annotated, Any

import pulumi
from pydantic import Field

from cloud.machines import G2_MACHINES, L4
from components.capacity.capacity_chain import CapacityChain
from components.cluster.standard_cluster import NodePool, NodePoolArgs
from components.workload.model_server import ModelServer, ModelServerArgs
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.l4 import disk_gb, pod_size
from stacks.platform import WORKLOADS, StackContext, StandardNodes
from stacks.serving import questions, vllm
from stacks.serving.served_run import NOTHING_MOUNTED, declare_served_run, values_of
from stacks.settings.bucket import Bucket
from stacks.settings.capacity import OneCapacity
from stacks.settings.cluster import Cluster
from stacks.settings.model import ConfigModel, Default, Hint
from stacks.settings.project import Project
from stacks.training.platform import TrainingPlatform, run_name, training_platform, warn_of_spot
from stacks.training.settings import FineTuning, TrainingImage
from stacks.training.torchrun import SERVICE, ProgramNodes, torchrun_job

MACHINE = G2_MACHINES["g2-standard-12"]


class Settings(ConfigModel):
    """Settings of neutral."""

    project: Project
    capacity: OneCapacity
    nodes: int = Field(2, ge=1, description="Number of machines with an L4.")
    zone: Annotated[str, Hint(values="a zone")] = Field("", alias="zones", description="Zone of the nodes.")
    training: Annotated[FineTuning, Default("recipe", "gemma-3-4b-sql")]
    serving_model: str = Field("google/gemma-3-12b-it", description="Model that is served.")
    served_run: str | None = Field(None, description="A finished run that is served in its place.")
    serving: vllm.Vllm
    image: TrainingImage
    bucket: Bucket
    cluster: Cluster


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs."""
    stack, training = StackContext(settings.project), settings.training
    zone = settings.zone or L4.zones[stack.region][0]
    platform = training_platform(
        stack,
        training,
        settings.image,
        settings.bucket,
        settings.cluster,
        namespace="llm",
        nodes=StandardNodes(location=stack.region, zones=[zone]),
        more_images=[stack.reachable(settings.serving.server_image(settings.project))],
    )
    pool = NodePool(
        f"{stack.name}-l4",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=MACHINE,
            zones=[zone],
            minimum=settings.nodes,
            maximum=settings.nodes,
            disk_gb=disk_gb(MACHINE, MACHINE.count),
            capacity=settings.capacity.capacity,
            run_hours=training.max_run_hours,
        ),
    )
    run = run_name(training, platform.code, platform.image)
    nodes = ProgramNodes(
        count=1,
        size=pod_size(MACHINE, MACHINE.count),
        selector=MACHINE.node_labels,
        shared_memory="8Gi",
        scratch="64Gi",
        grace_seconds=90,
    )
    warn_of_spot(settings.capacity.capacity_types)
    chain = CapacityChain(capacities=(settings.capacity.capacity,))
    job = torchrun_job(stack, training, chain, platform, nodes, run, wait=False, depends_on=[pool.ready])
    server = _server(stack, settings, platform, pool)
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            stack,
            platform,
            [*GPUS, "serving", "training", "tokens"],
            trainers={"app": SERVICE},
            servers=server.pod_labels,
        ),
        **server.commands(),
        **questions.outputs(),
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *training.trained_recipe.results),
    }


def _server(
    stack: StackContext, settings: Settings, platform: TrainingPlatform, pool: NodePool
) -> ModelServer:
    serving = settings.serving
    arguments = serving.arguments_of_vllm(settings.serving_model, *vllm.gke_arguments(MACHINE.count))
    served: dict[str, Any] = {"arguments": arguments, **NOTHING_MOUNTED}
    if settings.served_run:
        bucket, _, folder = settings.served_run.removeprefix("gs://").partition("/")
        run = declare_served_run(settings.project, serving, bucket, folder, gpus=MACHINE.count, keep=False)
        served = values_of([run], serving, MACHINE.count)
    return ModelServer(
        stack.name,
        ModelServerArgs(
            namespace=platform.namespace,
            server_name="serving",
            manifest=WORKLOADS / "vllm/serving.yaml",
            values={
                "queueLabels": {},
                "rollout": vllm.NO_GAP,
                "serviceAccount": platform.account.account_name,
                "nodeSelector": dict(MACHINE.node_labels),
                "size": pod_size(MACHINE, MACHINE.count),
                "image": serving.server_image(settings.project).uri,
                **served,
            },
            replicas=1,
            depends_on=[*platform.depends_on, pool.ready],
        ),
    )
