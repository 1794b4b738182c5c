"""The fine-tune as a Kubernetes Job: one pod per node, one process per GPU, without Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi

from cloud.machines import GPU_RESOURCE
from components.base.pod_patch import PodPatch
from components.capacity.capacity_chain import CapacityChain
from components.workload.batch_job import BatchJob, BatchJobArgs
from stacks.platform import WORKLOADS, StackContext
from stacks.training.platform import TrainingPlatform
from stacks.training.settings import FineTuning

# Name of the Service through which the pods find each other, and label `app` of the pods.
SERVICE: Final = "finetune"
# A problem of one node fails the pods of all, and a node that comes late fails some of them several times.
_TRIES: Final = 3
_TRIES_PER_NODE: Final = 6


@dataclass(frozen=True, kw_only=True)
class TorchrunNodes:
    """The nodes of a fine-tune and the pod on each of them.

    Args:
        count: Number of nodes.
        size: Requests and limits of a pod, which has all its GPUs in it.
        selector: Node selector of the pods.
        shared_memory: Memory in which the processes of a node exchange tensors, as a Kubernetes quantity.
        scratch: Disk for models, data and caches.
        grace_seconds: Time of a pod from SIGTERM to its end.
        patch: Additions to a pod.
    """

    count: int
    size: Mapping[str, str]
    selector: Mapping[str, str]
    shared_memory: str
    scratch: str
    grace_seconds: int
    patch: PodPatch = field(default_factory=PodPatch)


def torchrun_job(
    stack: StackContext,
    training: FineTuning,
    chain: CapacityChain,
    platform: TrainingPlatform,
    nodes: TorchrunNodes,
    run: str,
    *,
    wait: bool,
    arguments: Sequence[str] = (),
    queue_labels: Mapping[str, str] | None = None,
    depends_on: Sequence[pulumi.Resource] = (),
) -> BatchJob:
    """Declares the Job.

    Args:
        chain: The capacities of the nodes.
        run: Name of the run.
        wait: See `JobArgs`.
        arguments: Arguments of the trainer besides those of every fine-tune.
        queue_labels: Labels with which the Job waits in a queue of Kueue.
        depends_on: Resources that the pods need besides those of the platform.
    """
    return BatchJob(
        stack.name,
        BatchJobArgs(
            namespace=platform.namespace,
            job_name=training.recipe_name,
            manifest=WORKLOADS / "torchrun/finetune.yaml",
            values={
                "queueLabels": {"labels": dict(queue_labels)} if queue_labels else {},
                "nodes": nodes.count,
                "tries": _TRIES if nodes.count == 1 else _TRIES_PER_NODE * nodes.count,
                "graceSeconds": nodes.grace_seconds,
                "serviceAccount": platform.account.account_name,
                "nodeSelector": dict(nodes.selector),
                "size": dict(nodes.size),
                "sharedMemory": nodes.shared_memory,
                "scratch": nodes.scratch,
                "eviction": chain.pod_annotations(),
                "image": platform.image.uri,
                "recipe": training.recipe_name,
                "tokens": platform.tokens,
                "bucket": platform.bucket.path_in_command,
                "run": run,
                "runArguments": [*arguments, *training.run_arguments],
                "gpus": nodes.size[GPU_RESOURCE],
                "service": SERVICE,
                "code": platform.code.volume,
            },
            patch=nodes.patch,
            service=SERVICE,
            depends_on=[*platform.depends_on, platform.code.access, *depends_on],
            wait=wait,
            deadline_hours=chain.deadline_hours(training.max_run_hours),
        ),
    )
