"""The nodes of a job: which way its pods come to them, decided once.

docs/capacity.md has the four ways. No other module asks which one it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from cloud.machines import Machine
from components.capacity.capacity_chain import CapacityChain
from components.capacity.compute_class import CLASS_LABEL, GPU_NODES
from components.capacity.node_needs import NodeNeeds
from components.image.image import Image
from components.queue.queue import Queue, QueueArgs
from stacks.nodes.placement import (
    QUEUE_NAME,
    START_MINUTES,
    UNCOUNTED,
    Placement,
    QueuedJob,
    declare_classes,
)
from stacks.nodes.price import price_of_machines
from stacks.nodes.queue import declare_keeper, declare_kueue, images_of_kueue
from stacks.nodes.requested_nodes import REQUESTED_DISK_GB, request_nodes
from stacks.platform import GkePlatform, StackContext, StandardNodes


class Way(Enum):
    """How pods come to their nodes."""

    LABELS = auto()
    """One capacity: a pod chooses its nodes by labels."""
    CLASS = auto()
    """A pod that needs no other chooses a class, and GKE goes from one capacity to the next."""
    QUEUE = auto()
    """Pods that need each other: Kueue admits their job to one capacity, and the keeper moves it on."""
    REQUEST = auto()
    """Kueue requests all nodes of the job together, on a Standard cluster."""


@dataclass(frozen=True, kw_only=True)
class JobNodes:
    """The nodes of the pods of a job. Every pod has a node to itself.

    Args:
        chain: The capacities of the nodes.
        machine: Machine of a node.
        labels: Labels of the nodes, for pods that choose no class.
        pods: Number of pods that need each other. 1 is a pod by itself.
    """

    chain: CapacityChain
    machine: Machine
    labels: Mapping[str, str]
    pods: int = 1

    @property
    def way(self) -> Way:
        """The way of the pods to their nodes."""
        if self.chain.queued:
            return Way.REQUEST
        if self.chain.is_list and self.pods > 1:
            return Way.QUEUE
        return Way.CLASS if self.chain.has_classes else Way.LABELS

    @property
    def moves(self) -> bool:
        """Whether the job moves from one capacity to the next, as a whole."""
        return self.way is Way.QUEUE

    @property
    def price(self) -> dict[str, str]:
        """The environment variable with the price of the nodes. See `price_of_machines`."""
        on_standard = self.way is Way.REQUEST
        return price_of_machines(
            self.chain,
            self.machine,
            self.pods,
            autopilot=not on_standard,
            disk_gb=REQUESTED_DISK_GB if on_standard else 0,
        )

    def standard(self, region: str) -> StandardNodes | None:
        """The place of nodes on a Standard cluster. None on Autopilot."""
        if self.way is not Way.REQUEST:
            return None
        assert self.chain.zone  # the settings require it
        return StandardNodes(location=region, zones=[self.chain.zone])

    def images(self, stack: StackContext) -> list[Image]:
        """The images that the nodes pull besides the job's own."""
        return images_of_kueue(stack) if self.way in (Way.QUEUE, Way.REQUEST) else []

    def place(
        self,
        stack: StackContext,
        platform: GkePlatform,
        job: QueuedJob | None = None,
        needs: NodeNeeds | None = None,
    ) -> Placement:
        """Declares what the pods need to get their nodes.

        Args:
            job: The job of the pods. None for a pod by itself.
            needs: What the pods need of their nodes besides accelerators.
        """
        way, needs = self.way, needs or NodeNeeds()
        if way is Way.LABELS:
            return Placement(selector={**self.labels, **self.chain.capacities[0].pod_selectors()})
        if way is Way.CLASS:
            node_class = self.chain.one_class(self.machine)
            return Placement(
                selector={CLASS_LABEL: node_class.name},
                depends_on=declare_classes(stack, platform, [node_class], needs),
                patch=needs.pods.with_tolerations(GPU_NODES),
            )
        assert job  # a pod by itself takes no other way
        if way is Way.REQUEST:
            return request_nodes(stack, self.chain, platform, self.machine, self.pods, job)
        return self._in_queue(stack, platform, job, needs)

    def _in_queue(
        self, stack: StackContext, platform: GkePlatform, job: QueuedJob, needs: NodeNeeds
    ) -> Placement:
        minutes = self.chain.minutes_by_class()
        kueue = declare_kueue(
            stack,
            platform,
            frameworks=[job.framework],
            uncounted=UNCOUNTED,
            devices=needs.devices,
            # The keeper watches how long a job waits for nodes.
            ready_minutes=max(minutes.values()) + START_MINUTES,
        )
        in_a_pod = {self.machine.resource: self.machine.count, **needs.devices_per_pod}
        queue = Queue(
            stack.name,
            QueueArgs(
                kueue=kueue,
                namespace=platform.namespace,
                queue_name=QUEUE_NAME,
                flavors={name: {CLASS_LABEL: name} for name in minutes},
                quota={resource: str(self.pods * number) for resource, number in in_a_pod.items()},
            ),
        )
        keeper = declare_keeper(stack, platform, kueue, queue, minutes)
        classes = declare_classes(stack, platform, self.chain.classes(self.machine), needs)
        patch = needs.pods.with_tolerations(GPU_NODES)
        return Placement.in_queue(platform, queue, [*classes, *queue.access, keeper], patch)
