"""l4-kueue: vLLM and a fine-tune share L4 GPUs, and Kueue preempts the fine-tune when serving needs them."""

from math import floor
from typing import Annotated, Final, Literal

import pulumi
from pydantic import Field

from cloud.machines import L4, allocatable_disk_gib
from components.identity.identity import ServiceAccount, ServiceAccountArgs
from components.queue.queue import Queue, QueueArgs
from components.workload.batch_job import BatchJob
from components.workload.model_server import Autoscaling, ModelServer, ModelServerArgs
from stacks.monitoring import GPUS, QUEUE, gke_monitoring
from stacks.nodes.l4_nodes import GPUS_PER_POD, TRAINING_PODS, L4Nodes, l4_nodes
from stacks.nodes.queue import declare_keeper, declare_kueue, images_of_kueue
from stacks.platform import WORKLOADS, StackContext, StandardNodes
from stacks.serving import questions, vllm
from stacks.serving.hub_model import HubModel
from stacks.serving.served_run import NOTHING_MOUNTED, declare_served_run, values_of
from stacks.settings import Bucket, Cluster, ConfigModel, Default, Hint, Project, rule
from stacks.training.platform import TrainingPlatform, run_name, training_platform, warn_of_spot
from stacks.training.settings import FineTuning, Fit, TrainingImage
from stacks.training.torchrun import SERVICE, ProgramNodes, torchrun_job
from stacks.training.trial import Trial, declare_trial

_AUTOSCALER: Final = (WORKLOADS / "vllm/autoscaling-metric.yaml", WORKLOADS / "vllm/autoscaler.yaml")
_POLICIES: Final = ("deny-ingress", "ingress-to-serving", "ingress-to-finetune")
# Longer than the startup probe of the server, which covers the download and the loading of a model.
_READY_MINUTES: Final = 45
_PRIORITIES: Final = {
    "high": {"value": 1000, "description": "Somebody waits for the answer; pre-empts low."},
    "low": {"value": 100, "description": "Goes on later from its checkpoint; gives way to high."},
}


class Settings(ConfigModel):
    """Settings of l4-kueue."""

    project: Project
    nodes: L4Nodes
    training: Annotated[FineTuning, Default("recipe", "gemma-3-4b-sql")]
    trial: Trial = True
    serve: Literal["hub", "run"] = Field(
        "hub",
        description="What is served: `hub` is `servingModel`. `run` is the stack's own finished run. If the "
        "run is not finished or not good, `up` says so and the run before is still served. On a new stack "
        "begin with `hub`, which trains the run: `run` is refused there.",
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
    serving: vllm.Vllm
    image: TrainingImage
    bucket: Bucket
    cluster: Cluster

    @property
    def fit(self) -> Fit:
        """Whether a step fits into the memory of a pod's GPUs."""
        return self.training.fit_on(L4, GPUS_PER_POD)

    @property
    def autoscaling(self) -> Autoscaling | None:
        """The limits of the autoscaler, None if there is none."""
        if self.most_servers is None:
            return None
        return Autoscaling(minimum=self.fewest_servers, maximum=self.most_servers, manifests=_AUTOSCALER)

    @rule("recipe")
    def _recipe_fits_the_gpus(self) -> None:
        self.fit.check()

    @rule("vllmArguments")
    def _arguments_are_the_users_to_set(self) -> None:
        self.serving.require_users_arguments(
            model_key="servingModel", callers="network policies decide who may ask"
        )

    @rule("servingReplicas.max")
    def _number_is_free(self) -> None:
        if self.most_servers is not None and self.serving_replicas is not None:
            raise ValueError(
                "servingReplicas fixes the number of servers; run `pulumi config rm servingReplicas`, or "
                "remove servingReplicas.max"
            )

    @rule("servingReplicas.max")
    def _servers_have_their_gpus(self) -> None:
        most, gpus = self.most_servers, self.nodes.gpus_of_queue
        if most is not None and most * GPUS_PER_POD > gpus:
            raise ValueError(
                f"{most} servers need {most * GPUS_PER_POD} GPUs, and the queue has {gpus}; set it to "
                f"{gpus // GPUS_PER_POD} or less, or raise nodes"
            )

    @rule("serveNotGood", when_set=True)
    def _a_run_is_served(self) -> None:
        if self.serve == "hub":
            raise ValueError("serve: hub serves no run; set serve to run, or remove it")

    @rule("servingReplicas.min", when_set=True)
    def _fewest_are_below_the_most(self) -> None:
        fewest, most = self.fewest_servers, self.most_servers
        if most is None:
            raise ValueError("there is no autoscaler; set servingReplicas.max too, or remove it")
        if most is not None and fewest > most:
            raise ValueError(
                f"{fewest} is more than servingReplicas.max, {most}; lower one or raise the other"
            )


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    nodes, training = settings.nodes, settings.training
    settings.fit.warn()
    warn_of_spot(nodes.capacity_types)
    stack = StackContext(settings.project)
    server_image = settings.serving.server_image(stack.project)
    platform = training_platform(
        stack,
        training,
        settings.image,
        settings.bucket,
        settings.cluster,
        namespace="llm",
        network_policies=[stack.manifests / f"{policy}.yaml" for policy in _POLICIES],
        more_images=[stack.reachable(server_image), *images_of_kueue(stack)],
        scales_by_metrics_of_pods=settings.autoscaling is not None,
        nodes=None
        if nodes.autopilot
        else StandardNodes(location=stack.region, zones=nodes.zones_in(stack.region)),
    )
    queue, keepers = _queue(stack, nodes, platform)
    machines = [*l4_nodes(stack, nodes, platform, training.max_run_hours), *keepers]
    sizes = training.sized(TRAINING_PODS * GPUS_PER_POD)
    run = run_name(training, platform.code, platform.image, *sizes)
    server = _server(stack, settings, platform, queue, machines, run)
    job = _fine_tune(stack, settings, platform, queue, machines, run)
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            stack,
            platform,
            [*GPUS, QUEUE, "serving", "training", "tokens"],
            trainers={"app": SERVICE},
            servers=server.pod_labels,
        ),
        "watchQueue": f"{platform.namespace.kubectl} get workloads --watch",
        **server.commands(),
        **questions.outputs(training.trained_recipe.data if settings.serve == "run" else None),
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *training.trained_recipe.results),
    }


def _queue(
    stack: StackContext, nodes: L4Nodes, platform: TrainingPlatform
) -> tuple[Queue, list[pulumi.Resource]]:
    """Kueue, a queue whose quota is what the L4 nodes offer to pods, and the keeper of several capacities."""
    minutes = nodes.chain.minutes_by_class() if nodes.chain.is_list else {}
    kueue = declare_kueue(
        stack,
        platform,
        frameworks=["batch/job", "pod", "deployment"],  # it queues a Deployment pod by pod
        ready_minutes=_READY_MINUTES + max(minutes.values(), default=0),
    )
    machine, number = nodes.machine, nodes.nodes
    disk = allocatable_disk_gib(nodes.disk_gb)
    queue = Queue(
        stack.name,
        QueueArgs(
            kueue=kueue,
            namespace=platform.namespace,
            queue_name="llm",
            flavors=nodes.flavors,
            tolerations=nodes.tolerations,
            quota={
                "cpu": str(number * machine.pod_cpus),
                "memory": f"{number * machine.pod_memory_gib}Gi",
                "ephemeral-storage": f"{number * floor(disk)}Gi",
                machine.resource: str(number * machine.count),
            },
            priorities=_PRIORITIES,
        ),
    )
    if not minutes:
        return queue, []
    return queue, [declare_keeper(stack, platform, kueue, queue, minutes)]


def _server(
    stack: StackContext,
    settings: Settings,
    platform: TrainingPlatform,
    queue: Queue,
    machines: list[pulumi.Resource],
    run: str,
) -> ModelServer:
    """vLLM. It runs as its own service account, which reads the bucket."""
    # Named after the stack for the same reason as the account of the training: see `training_platform`.
    account_name = f"serving-{stack.label.replace('_', '-')}".rstrip("-")
    account = ServiceAccount(
        f"{stack.name}-serving", ServiceAccountArgs(namespace=platform.namespace, account_name=account_name)
    )
    bucket = platform.bucket
    # The base model of an adapter and the copy of a model of the Hub are in `weights`.
    folders = ("weights", run) if settings.serve == "run" else ("weights",)
    access = bucket.let_read(stack.name, "serving", account, *folders)
    if settings.serve == "run":
        folder = f"{bucket.prefix}{run}"
        own_run = declare_served_run(
            stack.project, settings.serving, bucket.bucket_name, folder, gpus=GPUS_PER_POD, keep=True
        )
        values = values_of([own_run], settings.serving, GPUS_PER_POD)
    else:
        name, _, revision = settings.serving_model.partition("@")
        model = HubModel(name=name, revision=revision)
        # Kueue is there before any Job of its namespace, because its webhook looks at each of them.
        copied = model.copied(stack.name, platform, settings.serving, GPUS_PER_POD, queue.access)
        access.append(copied)
        arguments = model.arguments(settings.serving, bucket, GPUS_PER_POD)
        values = {"arguments": arguments, **NOTHING_MOUNTED}
    return ModelServer(
        stack.name,
        ModelServerArgs(
            namespace=platform.namespace,
            server_name="serving",
            manifest=WORKLOADS / "vllm/serving.yaml",
            values={
                "queueLabels": {"labels": queue.labels("high")},
                "rollout": vllm.NO_GAP if settings.serve == "run" else vllm.WITHOUT_SPARE,
                "serviceAccount": account.account_name,
                "nodeSelector": settings.nodes.pod_selector,
                "size": settings.nodes.pod_size,
                "image": settings.serving.server_image(stack.project).uri,
                **values,
            },
            replicas=settings.serving_replicas,
            autoscaling=settings.autoscaling,
            depends_on=[*platform.depends_on, account.access, *access, *queue.access, *machines],
        ),
    )


def _fine_tune(
    stack: StackContext,
    settings: Settings,
    platform: TrainingPlatform,
    queue: Queue,
    machines: list[pulumi.Resource],
    run: str,
) -> BatchJob:
    # Kueue's webhook looks at each Job of the namespace.
    trial = declare_trial(
        stack, settings.training, platform, run, tries=settings.trial, depends_on=queue.access
    )
    pods = ProgramNodes(
        count=TRAINING_PODS,
        size=settings.nodes.pod_size,
        selector=settings.nodes.pod_selector,
        shared_memory="8Gi",
        scratch="64Gi",
        # Enough for the current step and a checkpoint of an adapter. Serving waits for the end of these pods:
        # Kueue frees their quota while they are still saving.
        grace_seconds=90,
    )
    return torchrun_job(
        stack,
        settings.training,
        settings.nodes.chain,
        platform,
        pods,
        run,
        # The job may wait for GPUs as long as serving needs them.
        wait=False,
        price=settings.nodes.price_of(TRAINING_PODS * GPUS_PER_POD),
        queue_labels=queue.labels("low"),
        depends_on=[*queue.access, *machines, *trial],
    )
