"""l4-kueue: vLLM and a fine-tune share L4 GPUs, and Kueue preempts the fine-tune when serving needs them."""

from math import floor
from typing import Annotated, Final, Literal

import pulumi
from pydantic import Field, ValidationInfo, field_validator

from cloud.machines import L4, allocatable_disk_gib
from components.identity.identity import ServiceAccount, ServiceAccountArgs
from components.queue.queue import Queue, QueueArgs
from components.workload.batch_job import BatchJob
from components.workload.model_server import Autoscaling, ModelServer, ModelServerArgs
from stacks.monitoring import GPUS, QUEUE, gke_monitoring
from stacks.nodes.l4 import disk_gb, pod_size
from stacks.nodes.l4_nodes import GPUS_PER_POD, TRAINING_PODS, L4NodesSettings, l4_nodes
from stacks.nodes.queue import declare_keeper, declare_kueue, images_of_kueue
from stacks.platform import WORKLOADS, Site, StandardNodes
from stacks.serving import questions, vllm
from stacks.serving.hub_model import HubModel
from stacks.serving.served_run import (
    NOTHING_MOUNTED,
    ServedRunSettings,
    served_run,
    values_of,
)
from stacks.settings.reader import Hint
from stacks.training.platform import GemmaRecipe, TrainingPlatform, run_name, training_platform
from stacks.training.torchrun import SERVICE, TorchrunNodes, TorchrunSettings, torchrun_job

_AUTOSCALER: Final = (WORKLOADS / "vllm/autoscaling-metric.yaml", WORKLOADS / "vllm/autoscaler.yaml")
_POLICIES: Final = ("deny-ingress", "ingress-to-serving", "ingress-to-finetune")
# Longer than the startup probe of the server, which covers the download and the loading of a model.
_READY_MINUTES: Final = 45
_PRIORITIES: Final = {
    "high": {"value": 1000, "description": "Somebody waits for the answer; pre-empts low."},
    "low": {"value": 100, "description": "Goes on later from its checkpoint; gives way to high."},
}


class Settings(TorchrunSettings, L4NodesSettings, ServedRunSettings):
    """Settings of l4-kueue."""

    gpu, gpus = L4, GPUS_PER_POD
    model_key, callers = "servingModel", "network policies decide who may ask"
    recipe: GemmaRecipe = "gemma-3-4b-sql"
    serve: Literal["hub", "run"] = Field(
        "hub",
        description="What is served: `hub` is `servingModel`. `run` is the stack's own finished run. If the "
        "run is not finished or not good, `up` says so and the run before is still served.",
    )
    serving_model: Annotated[
        str, Hint(values="a model of the Hugging Face Hub such as google/gemma-3-12b-it")
    ] = Field(
        "google/gemma-3-12b-it",
        pattern=r"^[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w.-]+)?$",
        description="Model on the Hugging Face Hub that vLLM serves. `up` copies it into the bucket once, "
        "and every server reads the copy. With @REVISION it is the model at that branch, tag or commit. "
        "Unused with `serve` `run`.",
    )
    serving_replicas: int | None = Field(
        None,
        ge=0,
        le=100,
        description="Number of servers. Without it the load decides (`servingReplicas.max`), or else "
        "`kubectl scale`.",
    )
    most_servers: int | None = Field(
        None,
        alias="servingReplicas.max",
        ge=1,
        le=100,
        description="Most servers. With it an autoscaler chooses their number by the requests that wait, and "
        "by the used memory for keys and values. It changes the number at most once in five minutes. The "
        "cluster is then on GKE's rapid channel, which alone has such metrics. The queue must have the GPUs "
        "of all servers.",
    )
    fewest_servers: int = Field(
        1,
        alias="servingReplicas.min",
        ge=1,
        le=100,
        description="Fewest servers, with `servingReplicas.max`.",
    )
    serving_priority: Literal["high", "low"] = Field(
        "high", description="Priority of the servers in the queue. `high` preempts `low`."
    )
    training_priority: Literal["high", "low"] = Field(
        "low", description="Priority of the fine-tune in the queue."
    )

    @property
    def autoscaling(self) -> Autoscaling | None:
        """The limits of the autoscaler, None if there is none."""
        if self.most_servers is None:
            return None
        return Autoscaling(minimum=self.fewest_servers, maximum=self.most_servers, manifests=_AUTOSCALER)

    @field_validator("most_servers")
    @classmethod
    def _have_their_gpus(cls, most: int | None, info: ValidationInfo) -> int | None:
        if most is None:
            return None
        if info.data.get("serving_replicas") is not None:
            raise ValueError(
                "servingReplicas fixes the number of servers; run `pulumi config rm servingReplicas`, or "
                "remove servingReplicas.max"
            )
        gpus = cls.gpus_of_queue(info.data)
        if gpus is not None and most * GPUS_PER_POD > gpus:
            raise ValueError(
                f"{most} servers need {most * GPUS_PER_POD} GPUs, and the queue has {gpus}; set it to "
                f"{gpus // GPUS_PER_POD} or less, or raise nodes"
            )
        return most

    @field_validator("fewest_servers")
    @classmethod
    def _are_below_the_most(cls, fewest: int, info: ValidationInfo) -> int:
        most = info.data.get("most_servers", fewest)
        if most is None:
            raise ValueError("there is no autoscaler; set servingReplicas.max too, or remove it")
        if fewest > most:
            raise ValueError(
                f"{fewest} is more than servingReplicas.max, {most}; lower one or raise the other"
            )
        return fewest


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    settings.warn_of_memory()
    site = Site(settings)
    platform = training_platform(
        site,
        settings,
        namespace="llm",
        network_policies=[site.manifests / f"{policy}.yaml" for policy in _POLICIES],
        more_images=[site.reachable(settings.server_image), *images_of_kueue(site, settings)],
        scales_by_metrics_of_pods=settings.autoscaling is not None,
        nodes=None if settings.autopilot else StandardNodes(location=settings.region, zones=settings.zones),
    )
    queue, keepers = _queue(site, settings, platform)
    nodes = [*l4_nodes(site, settings, platform), *keepers]
    sizes = settings.sized(TRAINING_PODS * GPUS_PER_POD)
    run = run_name(settings, platform.code, platform.image, *sizes)
    server = _server(site, settings, platform, queue, nodes, run)
    job = _fine_tune(site, settings, platform, queue, nodes, run)
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            site,
            settings,
            platform,
            [*GPUS, QUEUE, "serving", "training", "tokens"],
            trainers={"app": SERVICE},
            servers=server.pod_labels,
        ),
        "watchQueue": f"{platform.namespace.kubectl} get workloads --watch",
        **server.commands(),
        **questions.outputs(settings.trained_recipe.data if settings.serve == "run" else None),
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *settings.trained_recipe.results),
    }


def _queue(site: Site, settings: Settings, platform: TrainingPlatform) -> tuple[Queue, list[pulumi.Resource]]:
    """Kueue, a queue whose quota is what the L4 nodes offer to pods, and the keeper of several capacities."""
    minutes = settings.chain.minutes_by_class() if settings.chain.is_list else {}
    kueue = declare_kueue(
        site,
        settings,
        platform,
        frameworks=["batch/job", "pod", "deployment"],  # it queues a Deployment pod by pod
        ready_minutes=_READY_MINUTES + max(minutes.values(), default=0),
    )
    machine, nodes = settings.machine, settings.nodes
    disk = allocatable_disk_gib(disk_gb(machine, GPUS_PER_POD))
    queue = Queue(
        site.name,
        QueueArgs(
            kueue=kueue,
            namespace=platform.namespace,
            queue_name="llm",
            flavors=settings.flavors,
            quota={
                "cpu": str(nodes * machine.pod_cpus),
                "memory": f"{nodes * machine.pod_memory_gib}Gi",
                "ephemeral-storage": f"{nodes * floor(disk)}Gi",
                machine.resource: str(nodes * machine.count),
            },
            priorities=_PRIORITIES,
        ),
    )
    if not minutes:
        return queue, []
    return queue, [declare_keeper(site, platform, kueue, queue, platform.image, minutes)]


def _server(
    site: Site,
    settings: Settings,
    platform: TrainingPlatform,
    queue: Queue,
    nodes: list[pulumi.Resource],
    run: str,
) -> ModelServer:
    """vLLM. It runs as its own service account, which reads the bucket."""
    # Named after the stack for the same reason as the account of the training: see `training_platform`.
    account_name = f"serving-{site.stack.replace('_', '-')}".rstrip("-")
    account = ServiceAccount(
        f"{site.name}-serving", ServiceAccountArgs(namespace=platform.namespace, account_name=account_name)
    )
    bucket = platform.bucket
    access = bucket.let_read(site.name, "serving", account)
    if settings.serve == "run":
        folder = f"{bucket.prefix}{run}"
        own_run = served_run(settings, bucket.bucket_name, folder, gpus=GPUS_PER_POD, keep=True)
        values = values_of(own_run, settings, GPUS_PER_POD)
    else:
        name, _, revision = settings.serving_model.partition("@")
        model = HubModel(name=name, revision=revision)
        # Kueue is there before any Job of its namespace, because its webhook looks at each of them.
        access.append(model.copied(site.name, platform, queue.access))
        arguments = model.arguments(settings, bucket, GPUS_PER_POD)
        values = {"arguments": arguments, **NOTHING_MOUNTED}
    return ModelServer(
        site.name,
        ModelServerArgs(
            namespace=platform.namespace,
            server_name="serving",
            manifest=WORKLOADS / "vllm/serving.yaml",
            values={
                "queueLabels": {"labels": queue.labels(settings.serving_priority)},
                "rollout": vllm.NO_GAP if settings.serve == "run" else vllm.WITHOUT_SPARE,
                "serviceAccount": account.account_name,
                "nodeSelector": settings.pod_selector,
                "size": pod_size(settings.machine, GPUS_PER_POD),
                "image": settings.server_image.uri,
                **values,
            },
            replicas=settings.serving_replicas,
            autoscaling=settings.autoscaling,
            depends_on=[*platform.depends_on, account.access, *access, *queue.access, *nodes],
        ),
    )


def _fine_tune(
    site: Site,
    settings: Settings,
    platform: TrainingPlatform,
    queue: Queue,
    nodes: list[pulumi.Resource],
    run: str,
) -> BatchJob:
    pods = TorchrunNodes(
        count=TRAINING_PODS,
        size=pod_size(settings.machine, GPUS_PER_POD),
        selector=settings.pod_selector,
        shared_memory="8Gi",
        scratch="64Gi",
        # Enough for the current step and a checkpoint of an adapter. Serving waits for the end of these pods:
        # Kueue frees their quota while they are still saving.
        grace_seconds=90,
    )
    return torchrun_job(
        site,
        settings,
        platform,
        pods,
        run,
        # The job may wait for GPUs as long as serving needs them.
        wait=False,
        queue_labels=queue.labels(settings.training_priority),
        depends_on=[*queue.access, *nodes],
    )
