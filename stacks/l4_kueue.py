"""l4-kueue: vLLM and a fine-tune share L4 GPUs, and Kueue preempts the fine-tune when serving needs them."""

from enum import StrEnum
from math import floor
from typing import Annotated, Any, Final, Literal

import pulumi
from pydantic import Field, ValidationInfo, field_validator

from cloud.machines import G2_MACHINES, L4, Machine, allocatable_disk_gib
from components.batch_job import BatchJob
from components.capacity import CapacityType
from components.identity import ServiceAccount, ServiceAccountArgs
from components.kueue import Kueue, KueueArgs, Queue, QueueArgs
from components.model_server import ModelServer, ModelServerArgs
from components.standard_cluster import NodePool, NodePoolArgs
from components.token import HuggingFaceToken
from stacks import pins, questions, vllm
from stacks.hub_model import HubModel
from stacks.l4 import L4Settings, autopilot_selector, disk_gb, pod_size
from stacks.platform import WORKLOADS, Site, StandardNodes
from stacks.reader import Hint
from stacks.served_run import (
    NOTHING_MOUNTED,
    ServedRunSettings,
    served_run,
    values_of,
)
from stacks.torchrun import TorchrunNodes, TorchrunSettings, torchrun_job
from stacks.training import GemmaRecipe, TrainingPlatform, run_name, training_platform

# The workloads have the tutorial's sizes: a server spreads its model over two GPUs of one machine, and the
# fine-tune has two pods with two GPUs each.
GPUS_PER_POD: Final = 2
TRAINING_PODS: Final = 2

_POLICIES: Final = ("deny-ingress", "ingress-to-serving", "ingress-to-finetune")
_PRIORITIES: Final = {
    "high": {"value": 1000, "description": "Somebody waits for the answer; pre-empts low."},
    "low": {"value": 100, "description": "Goes on later from its checkpoint; gives way to high."},
}

_MachineType = StrEnum("_MachineType", {name: name for name in G2_MACHINES})


class Settings(TorchrunSettings, L4Settings, ServedRunSettings):
    """Settings of l4-kueue."""

    gpu, gpus = L4, GPUS_PER_POD
    model_key, callers = "servingModel", "network policies decide who may ask"
    recipe: GemmaRecipe = "gemma-3-4b-sql"
    cluster_mode: Literal["standard", "autopilot"] = Field(
        "standard",
        description="Mode of the cluster: `standard` has nodes of your choice. With `autopilot` Google "
        "chooses the nodes pod by pod, and bills by the pod.",
    )
    # The tutorial's machine. On Autopilot a pod with two L4 gets the same.
    machine_type: _MachineType = Field(
        _MachineType("g2-standard-24"),
        description="Machine type of the nodes, only on a Standard cluster. It also decides how much CPU, "
        "memory and disk a pod requests.",
    )
    nodes: int = Field(
        3,
        ge=1,
        le=100,
        description="Number of machines that the queue may fill. The node pool never has more.",
    )
    min_nodes: int = Field(
        # Flex-start creates machines when pods request them.
        default_factory=lambda data: 0 if data["capacity_type"] is CapacityType.FLEX_START else data["nodes"],
        ge=0,
        le=100,
        description="Fewest machines, only on a Standard cluster. Below `nodes` the autoscaler chooses the "
        "number. By default all `nodes`, with `flexStart` none.",
    )
    zones: Annotated[tuple[str, ...], Hint(values="a zone or a list of zones")] = Field(
        default_factory=lambda data: L4.zones[data["region"]][:1],
        min_length=1,
        description="Zones of the nodes, one or a list, only on a Standard cluster. By default the region's "
        "first zone with L4.",
    )
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
        description="Number of servers. By default an autoscaler or `kubectl scale` decides.",
    )
    serving_priority: Literal["high", "low"] = Field(
        "high", description="Priority of the servers in the queue. `high` preempts `low`."
    )
    training_priority: Literal["high", "low"] = Field(
        "low", description="Priority of the fine-tune in the queue."
    )

    @property
    def machine(self) -> Machine:
        """Machine of the nodes, in the catalogue."""
        return G2_MACHINES[self.machine_type]

    @property
    def autopilot(self) -> bool:
        """Whether the cluster is an Autopilot cluster."""
        return self.cluster_mode == "autopilot"

    @field_validator("machine_type", "min_nodes", "zones")
    @classmethod
    def _is_ours_to_choose(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("cluster_mode") == "autopilot":
            key = cls.model_fields[str(info.field_name)].alias
            raise ValueError(f"Autopilot chooses machines by itself; remove it with `pulumi config rm {key}`")
        return value

    @field_validator("machine_type")
    @classmethod
    def _holds_a_server(cls, machine: str) -> str:
        gpus = G2_MACHINES[machine].count
        if gpus < GPUS_PER_POD:
            large = ", ".join(name for name, other in G2_MACHINES.items() if other.count >= GPUS_PER_POD)
            raise ValueError(
                f"{machine} has {gpus} GPU, and a serving replica needs {GPUS_PER_POD} on one machine; "
                f"choose one of {large}"
            )
        return machine

    @field_validator("nodes")
    @classmethod
    def _hold_the_fine_tune(cls, nodes: int, info: ValidationInfo) -> int:
        machine, needed = info.data.get("machine_type"), TRAINING_PODS * GPUS_PER_POD
        gpus = G2_MACHINES[machine].count if machine else needed
        if nodes * gpus < needed:
            raise ValueError(
                f"{nodes} x {machine} has {nodes * gpus} GPUs, and the fine-tune needs {needed}; "
                f"set nodes to {-(-needed // gpus)} or more"
            )
        return nodes

    @field_validator("min_nodes")
    @classmethod
    def _fit_the_pool(cls, minimum: int, info: ValidationInfo) -> int:
        nodes, capacity = info.data.get("nodes", minimum), info.data.get("capacity_type")
        if minimum > nodes:
            raise ValueError(
                f"{minimum} machines are kept and nodes allows {nodes}; raise nodes or lower minNodes"
            )
        if minimum and capacity is CapacityType.FLEX_START:
            raise ValueError(
                "capacity.type flexStart starts machines when pods request them; set minNodes to 0"
            )
        return minimum

    @field_validator("zones")
    @classmethod
    def _have_l4(cls, zones: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        zones = tuple(dict.fromkeys(zones))
        region, nodes = info.data.get("region"), info.data.get("nodes")
        offered = L4.zones.get(region, zones)
        unknown = [zone for zone in zones if zone not in offered]
        if unknown:
            raise ValueError(
                f"not a zone of {region} with L4 GPUs: {', '.join(unknown)}; choose from {', '.join(offered)}"
            )
        if nodes and info.data.get("min_nodes") == nodes and nodes % len(zones):
            raise ValueError(
                f"{nodes} machines do not spread evenly over {len(zones)} zones; give one zone, or set "
                "minNodes below nodes and let the autoscaler spread them"
            )
        return zones


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    settings.warn_of_memory()
    site = Site(settings)
    platform = training_platform(
        site,
        settings,
        namespace="llm",
        network_policies=[site.manifests / f"{policy}.yaml" for policy in _POLICIES],
        more_images=[settings.server_image],
        nodes=None if settings.autopilot else StandardNodes(location=settings.region, zones=settings.zones),
    )
    queue = _queue(site, settings, platform)
    nodes = [] if settings.autopilot else [_l4_pool(site, settings, platform).ready]
    sizes = settings.sized(TRAINING_PODS * GPUS_PER_POD)
    run = run_name(settings, platform.code, platform.image, *sizes)
    server = _server(site, settings, platform, queue, nodes, run)
    job = _fine_tune(site, settings, platform, queue, nodes, run)
    return {
        "connect": platform.cluster.connect,
        "openMonitoring": platform.cluster.monitoring,
        "watchQueue": f"{platform.namespace.kubectl} get workloads --watch",
        **server.commands(),
        **questions.outputs(settings.trained_recipe.data if settings.serve == "run" else None),
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *settings.trained_recipe.results),
    }


def _queue(site: Site, settings: Settings, platform: TrainingPlatform) -> Queue:
    """Kueue, and a queue whose quota is what the L4 nodes offer to pods."""
    kueue = Kueue(
        site.name,
        KueueArgs(
            cluster=platform.cluster,
            version=pins.KUEUE_VERSION,
            image=pins.KUEUE_IMAGE,
            namespaces=[platform.namespace.namespace],
            depends_on=[platform.network.egress],
        ),
    )
    machine, nodes = settings.machine, settings.nodes
    return Queue(
        site.name,
        QueueArgs(
            kueue=kueue,
            namespace=platform.namespace,
            queue_name="llm",
            flavor=machine.accelerator,
            node_labels=machine.node_labels,
            quota={
                "cpu": str(nodes * machine.pod_cpus),
                "memory": f"{nodes * machine.pod_memory_gib}Gi",
                "storage": f"{nodes * floor(allocatable_disk_gib(disk_gb(machine, GPUS_PER_POD)))}Gi",
                "gpus": str(nodes * machine.count),
            },
            priorities=_PRIORITIES,
        ),
    )


def _l4_pool(site: Site, settings: Settings, platform: TrainingPlatform) -> NodePool:
    return NodePool(
        f"{site.name}-l4",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=settings.machine,
            zones=settings.zones,
            minimum=settings.min_nodes,
            maximum=settings.nodes,
            disk_gb=disk_gb(settings.machine, GPUS_PER_POD),
            capacity=settings.capacity,
            run_hours=settings.max_run_hours,
        ),
    )


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
        # The base model of an adapter comes from the Hub.
        values = {"tokens": [HuggingFaceToken.in_pods()], **values_of(own_run, settings, GPUS_PER_POD)}
    else:
        name, _, revision = settings.serving_model.partition("@")
        model = HubModel(name=name, revision=revision)
        # Kueue is there before any Job of its namespace, because its webhook looks at each of them.
        access.append(model.copied(site.name, platform, queue.access))
        arguments = model.arguments(settings, bucket, GPUS_PER_POD)
        values = {"arguments": arguments, "tokens": [], **NOTHING_MOUNTED}
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
                "nodeSelector": _node_selector(settings),
                "size": pod_size(settings.machine, GPUS_PER_POD),
                "image": settings.server_image.uri,
                **values,
            },
            replicas=settings.serving_replicas,
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
        selector=_node_selector(settings),
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


def _node_selector(settings: Settings) -> dict[str, str]:
    """Node selector of the pods. On Autopilot it also chooses the driver and the capacity."""
    labels = dict(settings.machine.node_labels)
    if settings.autopilot:
        labels |= autopilot_selector(settings.capacity)
    return labels
