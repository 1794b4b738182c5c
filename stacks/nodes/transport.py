"""How the nodes of a job on A4 machines reach each other: over TCP, or by the network cards of the GPUs."""

from components.capacity.node_needs import NodeNeeds
from components.capacity.rdma_network import RdmaNetwork, RdmaNetworkArgs
from stacks import pins
from stacks.nodes.a4 import MACHINE, A4Capacity
from stacks.platform import StackContext
from stacks.training.platform import TrainingPlatform


def needs_of_transport(stack: StackContext, capacity: A4Capacity, platform: TrainingPlatform) -> NodeNeeds:
    """Declares what pods need for the transport of the settings. TCP needs nothing."""
    if capacity.transport == "tcp":
        return NodeNeeds()
    network = RdmaNetwork(
        stack.name,
        RdmaNetworkArgs(
            cluster=platform.cluster,
            namespace=platform.namespace,
            bucket=platform.bucket,
            plugin_image=pins.NCCL_PLUGIN_IMAGE,
            cards=MACHINE.count,  # one for each GPU
        ),
    )
    return network.needs
