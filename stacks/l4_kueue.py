"""l4-kueue: vLLM serving and a fine-tune share L4 GPUs; Kueue takes them from the fine-tune when needed."""

from typing import Final

import pulumi

from cloud.machines import allocatable_disk_gib
from components.batch_job import BatchJob, BatchJobArgs
from components.fingerprint import fingerprint
from components.headless_service import HeadlessService, HeadlessServiceArgs
from components.kueue import Kueue, KueueArgs, Priority, Queue, QueueArgs, Quota
from components.model_server import ModelServer, ModelServerArgs
from components.node_pool import NodePool, NodePoolArgs
from components.service_account import ServiceAccount, ServiceAccountArgs
from stacks import pins
from stacks.gke_training import WORKLOADS, Ground, lay_ground
from stacks.l4_machines import GPUS_PER_POD, TRAINING_PODS
from stacks.settings import L4Kueue

NAME: Final = "l4-kueue"
MANIFESTS: Final = WORKLOADS / NAME
# Boot disk of a node: images, and the scratch space of its pods.
_DISK_GB: Final = 200
_POLICIES: Final = ("deny-ingress", "ingress-to-serving", "ingress-to-finetune")
_PRIORITIES: Final = {
    "high": Priority(value=1000, description="Somebody waits for the answer; pre-empts low."),
    "low": Priority(value=100, description="Goes on later from its checkpoint; gives way to high."),
}


def build(settings: L4Kueue) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    ground = lay_ground(
        NAME,
        settings,
        namespace="llm",
        network_policies=[MANIFESTS / f"{policy}.yaml" for policy in _POLICIES],
        zones=settings.machines.zones,
    )
    queue = _queue(settings, ground)
    nodes = [] if settings.autopilot else [_l4_pool(settings, ground).ready]
    server = _server(settings, ground, queue, nodes)
    # The same code on the same libraries and as many GPUs is the same run, and resumes.
    content = fingerprint(ground.code.digest, ground.image.fingerprint, TRAINING_PODS * GPUS_PER_POD)
    run = f"{settings.recipe}-{content}"
    job = _fine_tune(settings, ground, queue, nodes, run)
    return _outputs(settings, ground, server, job, run)


def _queue(settings: L4Kueue, ground: Ground) -> Queue:
    """Kueue, and a queue with what pods can have of the L4 nodes."""
    kueue = Kueue(
        NAME,
        KueueArgs(
            cluster=ground.cluster,
            version=pins.KUEUE_VERSION,
            namespaces=[ground.namespace.namespace],
            depends_on=[ground.network.egress],
        ),
    )
    machine, nodes = settings.machines.type, settings.machines.nodes
    return Queue(
        NAME,
        QueueArgs(
            kueue=kueue,
            namespace=ground.namespace,
            queue_name="llm",
            flavor=machine.accelerator,
            node_labels=machine.node_labels,
            quota=Quota(
                gpus=nodes * machine.count,
                cpus=nodes * machine.pod_cpus,
                memory_gib=nodes * machine.pod_memory_gib,
                storage_gib=nodes * int(allocatable_disk_gib(_DISK_GB)),
            ),
            priorities=_PRIORITIES,
        ),
    )


def _l4_pool(settings: L4Kueue, ground: Ground) -> NodePool:
    machines = settings.machines
    return NodePool(
        f"{NAME}-l4",
        NodePoolArgs(
            cluster=ground.cluster,
            machine=machines.type,
            zones=machines.zones,
            minimum=machines.min_nodes,
            maximum=machines.nodes,
            disk_gb=_DISK_GB,
            capacity=settings.capacity.node_pool_settings(settings.max_run_hours),
        ),
    )


def _server(settings: L4Kueue, ground: Ground, queue: Queue, nodes: list[pulumi.Resource]) -> ModelServer:
    """vLLM with a model from the Hub, as an account of its own that may do nothing at Google."""
    account = ServiceAccount(
        f"{NAME}-serving", ServiceAccountArgs(namespace=ground.namespace, account_name="serving")
    )
    return ModelServer(
        NAME,
        ModelServerArgs(
            namespace=ground.namespace,
            server_name="serving",
            manifest=MANIFESTS / "serving.yaml",
            values={
                "queue": queue.queue_name,
                "priority": settings.serving_priority,
                "serviceAccount": account.account_name,
                "placement": _placement(settings),
                "image": pins.VLLM_IMAGE,
                "model": settings.serving_model,
                "gpus": str(GPUS_PER_POD),
            },
            replicas=settings.serving_replicas,
            depends_on=[*ground.depends_on, account.access, *queue.access, *nodes],
        ),
    )


def _fine_tune(
    settings: L4Kueue, ground: Ground, queue: Queue, nodes: list[pulumi.Resource], run: str
) -> BatchJob:
    names = HeadlessService(
        NAME,
        HeadlessServiceArgs(
            namespace=ground.namespace,
            service_name="finetune",
        ),
    )
    return BatchJob(
        NAME,
        BatchJobArgs(
            namespace=ground.namespace,
            job_name=settings.recipe,
            manifest=MANIFESTS / "finetune.yaml",
            values={
                "queue": queue.queue_name,
                "priority": settings.training_priority,
                "serviceAccount": ground.account.account_name,
                "placement": _placement(settings),
                "image": ground.image.uri,
                "recipe": settings.recipe,
                "bucket": ground.bucket.bucket_name,
                "run": run,
                "pods": TRAINING_PODS,
                "gpus": str(GPUS_PER_POD),
                "service": names.service_name,
                "code": ground.code.volume,
            },
            depends_on=[*ground.depends_on, ground.code.access, names.access, *queue.access, *nodes],
            # It may wait for GPUs for as long as serving needs them.
            wait=False,
            max_hours=settings.max_run_hours,
        ),
    )


def _placement(settings: L4Kueue) -> dict[str, str]:
    """Node selectors beside the GPU's: on Autopilot pods say what else their node must be."""
    if not settings.autopilot:
        return {}
    return {"cloud.google.com/gke-gpu-driver-version": "latest", **settings.capacity.pod_selectors()}


def _outputs(
    settings: L4Kueue, ground: Ground, server: ModelServer, job: BatchJob, run: str
) -> dict[str, pulumi.Input[str]]:
    """Commands to copy, in the order in which an operator needs them; `up` waited for none of it."""
    kubectl = ground.namespace.kubectl
    message = '{"role": "user", "content": "Why is the sky blue?"}'
    question = f'{{"model": "{settings.serving_model}", "messages": [{message}]}}'
    return {
        "connect": ground.cluster.connect,
        "watchQueue": f"{kubectl} get workloads --watch",
        "watchServing": f"{kubectl} get pods --selector app={server.server_name} --watch",
        "openServing": f"{kubectl} port-forward service/{server.server_name} 8000:8000",
        "ask": (
            "curl --fail-with-body http://127.0.0.1:8000/v1/chat/completions "
            f"--header 'Content-Type: application/json' --data '{question}'"
        ),
        **job.commands(),
        **ground.bucket.commands(run),
    }
