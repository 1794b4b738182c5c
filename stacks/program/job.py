"""A program as a Kubernetes Job: one pod per node, without Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi

from components.base.fingerprint import PartlyKnown
from components.base.pod_patch import PodPatch
from components.capacity.capacity_chain import CapacityChain
from components.workload.batch_job import BatchJob, BatchJobArgs
from stacks.platform import WORKLOADS, StackContext
from stacks.program.platform import ProgramPlatform

# Port of the first pod at which the processes of several nodes meet.
PORT: Final = 29500
# How often a failed try is repeated.
TRIES: Final = 3
# A problem of one node fails the pods of all, and a node that comes late fails some of them several times.
_TRIES_OF_SEVERAL: Final = 2


@dataclass(frozen=True, kw_only=True)
class ProgramNodes:
    """The nodes of a program and the pod on each of them.

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


@dataclass(frozen=True, kw_only=True)
class JobProgram:
    """What the pods of a Job run.

    Args:
        name: Start of the Job's name.
        service: Name of the Service through which the pods find each other, and of the container.
        command: The command. Arguments follow.
        variables: Environment variables of the container, besides those of every program.
        home: Home folder of the container's user.
        code: Sources of the ConfigMaps with code, by the name of the folder that shows each.
        final: Exit codes that end the Job without another try.
        tries: How often a failed try is repeated on one node. On several nodes it is more often.
        annotations: Annotations of the pods.
    """

    name: str
    service: str
    command: Sequence[str]
    arguments: Sequence[str | PartlyKnown]
    variables: Sequence[Mapping[str, Any]]
    home: str
    code: Mapping[str, Mapping[str, Any]]
    final: Sequence[int]
    tries: int = TRIES
    annotations: Mapping[str, str] = field(default_factory=dict)


def meeting_place(service: str) -> str:
    """HOST:PORT of the first pod of a Job, for the container's arguments."""
    return f"{first_pod(service)}:{PORT}"


def first_pod(service: str) -> str:
    """The name of the first pod for the others, in which the kubelet fills in the Job's name."""
    return f"$(JOB_NAME)-0.{service}"


def program_job(
    stack: StackContext,
    chain: CapacityChain,
    platform: ProgramPlatform,
    nodes: ProgramNodes,
    program: JobProgram,
    *,
    wait: bool,
    queue_labels: Mapping[str, str] | None = None,
    depends_on: Sequence[pulumi.Resource] = (),
    deadline_hours: int | None = None,
) -> BatchJob:
    """Declares the Job.

    Args:
        chain: The capacities of the nodes.
        wait: See `JobArgs`.
        queue_labels: Labels with which the Job waits in a queue of Kueue.
        depends_on: Resources that the pods need besides those of the platform.
        deadline_hours: See `JobArgs`.
    """
    final = {"containerName": program.service, "operator": "In", "values": list(program.final)}
    folders = program.code.items()
    return BatchJob(
        stack.name,
        BatchJobArgs(
            namespace=platform.namespace,
            job_name=program.name,
            manifest=WORKLOADS / "torchrun/job.yaml",
            values={
                "queueLabels": {"labels": dict(queue_labels)} if queue_labels else {},
                "nodes": nodes.count,
                "tries": program.tries * (1 if nodes.count == 1 else _TRIES_OF_SEVERAL * nodes.count),
                "finalEndings": [{"action": "FailJob", "onExitCodes": final}] if program.final else [],
                "graceSeconds": nodes.grace_seconds,
                "serviceAccount": platform.account.account_name,
                "nodeSelector": dict(nodes.selector),
                "size": dict(nodes.size),
                "sharedMemory": nodes.shared_memory,
                "scratch": nodes.scratch,
                "podAnnotations": {**chain.pod_annotations(), **program.annotations},
                "image": platform.image.uri,
                "command": list(program.command),
                "arguments": list(program.arguments),
                "home": program.home,
                "variables": [dict(variable) for variable in program.variables],
                "codeMounts": [
                    {"name": name, "mountPath": f"/{name}", "readOnly": True} for name in program.code
                ],
                "codeVolumes": [{"name": name, "configMap": dict(source)} for name, source in folders],
                "service": program.service,
            },
            patch=nodes.patch,
            service=program.service,
            depends_on=[*platform.depends_on, *depends_on],
            wait=wait,
            deadline_hours=deadline_hours,
        ),
    )
