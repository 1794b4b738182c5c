"""How pods with accelerators get their nodes on Autopilot.

From one capacity by the labels of their node selector. From a list, a pod that needs no other node chooses a
class, and GKE goes from one capacity to the next. Several pods that need each other must not: with one node
from each of two capacities they would wait and cost. So Kueue admits their job to one capacity as a whole,
and `capacity_keeper` moves it to the next (docs/adr/0018-a-job-moves-as-a-whole.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi

from cloud.machines import Machine
from components.capacity.capacity_chain import CapacityChain, NodeClass
from components.capacity.compute_class import CLASS_LABEL, ComputeClass, ComputeClassArgs
from components.capacity.pod_network import PodNetwork
from components.capacity.rdma_network import DEVICE_CLASS, NETWORK_CARDS, RdmaNetwork
from components.image.image import Image
from components.queue.queue import Queue, QueueArgs
from stacks.monitoring import QUEUE
from stacks.nodes.queue import declare_keeper, declare_kueue
from stacks.platform import GkePlatform, StackContext

# Kueue counts accelerators alone: pods without them, such as the head of a Ray cluster, run on other nodes.
UNCOUNTED: Final = ("cpu", "memory", "ephemeral-storage")
# Minutes that a job may need to start once it has its nodes: the pull of an image and the load of a model.
START_MINUTES: Final = 60


@dataclass(frozen=True, kw_only=True)
class JobOfPods:
    """A job whose pods need each other.

    Args:
        pods: Number of its pods with accelerators.
        framework: Its kind, as Kueue's configuration names it.
        image: Its image, whose Python the keeper runs on.
    """

    pods: int
    framework: str
    image: Image


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The way of some pods to their nodes.

    Attributes:
        selector: Node selector of the pods.
        queue_labels: Labels of their job.
        charts: Charts of the dashboard that show it.
        outputs: Outputs of the stack that show it.
        depends_on: What the pods must wait for.
        network: How the pods reach each other.
    """

    selector: dict[str, str]
    queue_labels: dict[str, str] = field(default_factory=dict)
    charts: list[str] = field(default_factory=list)
    outputs: dict[str, pulumi.Input[str]] = field(default_factory=dict)
    depends_on: list[pulumi.Resource] = field(default_factory=list)
    network: PodNetwork = field(default_factory=PodNetwork)

    @classmethod
    def in_queue(
        cls,
        platform: GkePlatform,
        queue: Queue,
        depends_on: list[pulumi.Resource],
        network: PodNetwork | None = None,
    ) -> "Placement":
        """The way through a queue. Kueue writes the node selector into the pods."""
        return cls(
            selector={},
            queue_labels=queue.labels(),
            charts=[QUEUE],
            outputs={"watchQueue": f"{platform.namespace.kubectl} get workloads --watch"},
            depends_on=depends_on,
            network=network or PodNetwork(),
        )


def needs_queue(chain: CapacityChain, pods: int) -> bool:
    """Whether the pods are moved from one capacity to the next as a whole."""
    return chain.is_list and pods > 1


def place(
    stack: StackContext,
    chain: CapacityChain,
    platform: GkePlatform,
    machine: Machine,
    labels: Mapping[str, str],
    job: JobOfPods | None = None,
    network: RdmaNetwork | None = None,
) -> Placement:
    """Declares what pods need to get nodes of their own.

    Args:
        chain: The capacities of the nodes.
        machine: Machine of a node.
        labels: Labels of the nodes, for pods that choose no class.
        job: The job of the pods, if they need each other.
        network: The network cards of the nodes' GPUs. None if pods claim none.
    """
    if not chain.has_classes:
        return Placement(selector={**labels, **chain.capacities[0].pod_selectors()})
    if job and needs_queue(chain, job.pods):
        return _queued(stack, chain, platform, machine, job, network)
    node_class = chain.one_class(machine)
    # The label of the class is all that a pod needs (assumption class-pods).
    return Placement(
        selector={CLASS_LABEL: node_class.name},
        depends_on=declare_classes(stack, platform, [node_class], network),
        network=network.pods if network else PodNetwork(),
    )


def declare_classes(
    stack: StackContext,
    platform: GkePlatform,
    classes: Sequence[NodeClass],
    network: RdmaNetwork | None = None,
) -> list[pulumi.Resource]:
    """Declares classes, and returns what a pod that chooses one waits for."""
    declared = [
        ComputeClass(
            f"{stack.name}-{node_class.name}",
            ComputeClassArgs(cluster=platform.cluster, node_class=node_class, network=network),
        )
        for node_class in classes
    ]
    return [compute_class.access for compute_class in declared]


def _queued(
    stack: StackContext,
    chain: CapacityChain,
    platform: GkePlatform,
    machine: Machine,
    job: JobOfPods,
    network: RdmaNetwork | None,
) -> Placement:
    minutes = chain.minutes_by_class()
    kueue = declare_kueue(
        stack,
        platform,
        frameworks=[job.framework],
        uncounted=UNCOUNTED,
        devices={NETWORK_CARDS: DEVICE_CLASS} if network else {},
        # The keeper watches how long a job waits for nodes.
        ready_minutes=max(minutes.values()) + START_MINUTES,
    )
    queue = Queue(
        stack.name,
        QueueArgs(
            kueue=kueue,
            namespace=platform.namespace,
            queue_name="accelerators",
            flavors={name: {CLASS_LABEL: name} for name in minutes},
            quota=dict.fromkeys(
                [machine.resource, *([NETWORK_CARDS] if network else [])], str(job.pods * machine.count)
            ),
        ),
    )
    keeper = declare_keeper(stack, platform, kueue, queue, job.image, minutes)
    classes = declare_classes(stack, platform, chain.classes(machine), network)
    pods = network.pods if network else None
    return Placement.in_queue(platform, queue, [*classes, *queue.access, keeper], pods)
