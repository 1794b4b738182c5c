"""Nodes that come all together: a node pool of a Standard cluster whose machines Kueue requests for a job.

Autopilot has no such pools: docs/adr/0019-all-nodes-or-none-on-standard.md.
"""

from typing import Final

from cloud.machines import Machine
from components.capacity.capacity_chain import CapacityChain
from components.cluster.capacity import FLEX_START_MAX_HOURS
from components.cluster.standard_cluster import NodePool, NodePoolArgs
from components.queue.node_requests import QUEUED_NODES, NodeRequests, NodeRequestsArgs
from components.queue.queue import Queue, QueueArgs
from components.queue.request_kind import RequestKind, RequestKindArgs
from stacks.nodes.placement import QUEUE_NAME, START_MINUTES, UNCOUNTED, Placement, QueuedJob
from stacks.nodes.queue import declare_keeper, declare_kueue, keeper_image
from stacks.platform import GkePlatform, StackContext

_FLAVOR: Final = "queued-flex-start"
# GKE does not replace a node that is lost, so its pod waits in vain and the other nodes cost. After this time
# the job is stopped, and all its nodes are requested anew.
_LOST_MINUTES: Final = 10
# Images and the scratch space of a pod.
REQUESTED_DISK_GB: Final = 500


def request_nodes(
    stack: StackContext,
    chain: CapacityChain,
    platform: GkePlatform,
    machine: Machine,
    pods: int,
    job: QueuedJob,
) -> Placement:
    """Declares the pool, and the queue in which the job waits for its nodes.

    Args:
        chain: The only capacity, in its zone.
        machine: Machine of a node.
        pods: Number of pods of the job. Every pod takes a node.
    """
    (capacity,), zone = chain.capacities, chain.zone
    assert zone  # the settings require it
    # The pool states no labels. GKE's autoscaler writes the name of the newest request there, and the next
    # `up` would take it away. https://github.com/GoogleCloudPlatform/cluster-autoscaler
    # (pkg/provisioningrequests/manager/manager.go, updateLabelsIfNeeded, 2026-08-21)
    pool = NodePool(
        f"{stack.name}-queued",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=machine,
            zones=[zone],
            minimum=0,
            maximum=pods,
            disk_gb=REQUESTED_DISK_GB,
            capacity=capacity,
        ),
    )
    kind = RequestKind(
        stack.name,
        RequestKindArgs(namespace=platform.namespace, image=keeper_image(stack), depends_on=[pool.ready]),
    )
    kueue = declare_kueue(
        stack,
        platform,
        frameworks=[job.framework],
        uncounted=UNCOUNTED,
        ready_minutes=START_MINUTES,
        depends_on=[kind.access],
    )
    hours = capacity.machine_hours(job.run_hours) or FLEX_START_MAX_HOURS
    requests = NodeRequests(stack.name, NodeRequestsArgs(kueue=kueue, resource=machine.resource, hours=hours))
    queue = Queue(
        stack.name,
        QueueArgs(
            kueue=kueue,
            namespace=platform.namespace,
            queue_name=QUEUE_NAME,
            flavors={_FLAVOR: machine.node_labels},
            quota={machine.resource: str(pods * machine.count)},
            tolerations=[QUEUED_NODES],
            requests=requests,
        ),
    )
    keeper = declare_keeper(stack, platform, kueue, queue, {_FLAVOR: _LOST_MINUTES})
    return Placement.in_queue(platform, queue, depends_on=[pool.ready, *queue.access, keeper])
