"""The network cards of the GPUs, in the scenarios whose nodes reach each other by RDMA."""

from components.capacity.rdma_network import RdmaNetwork, RdmaNetworkArgs
from stacks import pins
from stacks.nodes.a4 import MACHINE, A4Capacity
from stacks.platform import StackContext
from stacks.training.platform import TrainingPlatform


def declare_network(
    stack: StackContext, capacity: A4Capacity, platform: TrainingPlatform
) -> RdmaNetwork | None:
    """Declares what pods need to use the network cards. None with TCP, which needs nothing."""
    if capacity.transport == "tcp":
        return None
    return RdmaNetwork(
        stack.name,
        RdmaNetworkArgs(
            cluster=platform.cluster,
            namespace=platform.namespace,
            bucket=platform.bucket,
            plugin_image=pins.NCCL_PLUGIN_IMAGE,
            cards=MACHINE.count,  # one for each GPU
        ),
    )
