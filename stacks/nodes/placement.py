"""What a job of several pods is, and how its pods come to their nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi

from components.base.pod_patch import PodPatch
from components.capacity.capacity_chain import NodeClass
from components.capacity.compute_class import ComputeClass, ComputeClassArgs
from components.capacity.node_needs import NodeNeeds
from components.queue.queue import Queue
from stacks.monitoring import QUEUE
from stacks.platform import GkePlatform, StackContext

# Name of the queue of a job.
QUEUE_NAME: Final = "accelerators"
# Kueue counts accelerators alone: pods without them, such as the head of a Ray cluster, run on other nodes.
UNCOUNTED: Final = ("cpu", "memory", "ephemeral-storage")
# Minutes that a job may need to start once it has its nodes: the pull of an image and the load of a model.
START_MINUTES: Final = 60


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job, as a queue must know it.

    Args:
        framework: Its kind, as Kueue's configuration names it.
        run_hours: Hours that it may train. None means no limit.
    """

    framework: str
    run_hours: int | None = None


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The way of some pods to their nodes.

    Attributes:
        selector: Node selector of the pods.
        queue_labels: Labels of their job.
        charts: Charts of the dashboard that show it.
        outputs: Outputs of the stack that show it.
        depends_on: What the pods must wait for.
        patch: Additions to the pods.
    """

    selector: dict[str, str]
    queue_labels: dict[str, str] = field(default_factory=dict)
    charts: list[str] = field(default_factory=list)
    outputs: dict[str, pulumi.Input[str]] = field(default_factory=dict)
    depends_on: list[pulumi.Resource] = field(default_factory=list)
    patch: PodPatch = field(default_factory=PodPatch)

    @classmethod
    def in_queue(
        cls,
        platform: GkePlatform,
        queue: Queue,
        depends_on: list[pulumi.Resource],
        patch: PodPatch | None = None,
    ) -> "Placement":
        """The way through a queue. Kueue writes the node selector into the pods."""
        return cls(
            selector={},
            queue_labels=queue.labels(),
            charts=[QUEUE],
            outputs={"watchQueue": f"{platform.namespace.kubectl} get workloads --watch"},
            depends_on=depends_on,
            patch=patch or PodPatch(),
        )


def declare_classes(
    stack: StackContext,
    platform: GkePlatform,
    classes: Sequence[NodeClass],
    needs: NodeNeeds | None = None,
) -> list[pulumi.Resource]:
    """Declares classes, and returns what a pod that chooses one waits for.

    Args:
        needs: What the pods need of the nodes.
    """
    declared = [
        ComputeClass(
            f"{stack.name}-{node_class.name}",
            ComputeClassArgs(cluster=platform.cluster, node_class=node_class, needs=needs or NodeNeeds()),
        )
        for node_class in classes
    ]
    return [compute_class.access for compute_class in declared]
