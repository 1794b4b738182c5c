"""The private network of a stack, with NAT for connections to the internet."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component

_PODS: Final = "pods"
_SERVICES: Final = "services"

# The network endpoint groups and firewall rules of a deleted cluster disappear minutes after it. Until then
# the network cannot be deleted.
# https://github.com/decisionbox-io/decisionbox-platform/issues/87
_CLUSTER_TIMEOUT: Final = "20m"


@dataclass(frozen=True, kw_only=True)
class AddressRanges:
    """The IP ranges of a subnet, in CIDR notation.

    Args:
        machines: Range of the machines. The default has 4,092 addresses.
        pods: Secondary range of a cluster's pods, None without a cluster.
        services: Secondary range of a cluster's services, None without a cluster.
    """

    machines: str = "10.0.0.0/20"
    pods: str | None = None
    services: str | None = None

    @property
    def text(self) -> str:
        """All ranges as one text."""
        return " ".join(filter(None, (self.machines, self.pods, self.services)))


@dataclass(frozen=True, kw_only=True)
class ClusterSubnet:
    """A subnet for a cluster: of the stack's own network, or one that exists.

    Args:
        network: Id of the VPC.
        subnet: Id of the subnet.
        pods: Name of the secondary range for pods.
        services: Name of the secondary range for services.
        egress: Resources that a workload that uses the internet must wait for.
    """

    network: pulumi.Input[str]
    subnet: pulumi.Input[str]
    pods: str
    services: str
    egress: tuple[pulumi.Resource, ...] = ()


class NetworkArgs(Args):
    """Arguments of `Network`.

    Args:
        ranges: IP ranges of the subnet.
        delete_timeout: How long destroy retries while a deleted resource still holds an address or a rule.
    """

    project: pulumi.Input[str]
    region: str
    ranges: AddressRanges = AddressRanges()
    delete_timeout: str = _CLUSTER_TIMEOUT


class Network(Component[NetworkArgs]):
    """A VPC with one subnet. Its machines have no public address and reach the internet through NAT.

    Attributes:
        subnet_id: Id of the subnet.
        egress: The NAT, for which a workload that uses the internet must wait.
    """

    apis = ("compute.googleapis.com",)

    def _declare(self, name: str, args: NetworkArgs) -> None:
        secondary = {_PODS: args.ranges.pods, _SERVICES: args.ranges.services}
        deletion = pulumi.CustomTimeouts(delete=args.delete_timeout)
        network = gcp.compute.Network(
            f"{name}-network",
            project=args.project,
            auto_create_subnetworks=False,
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=deletion,
                # A subnet that is in use keeps its ranges. A second one in the network may not overlap with
                # it, even in another region. So other ranges and another region need another network.
                # https://docs.cloud.google.com/vpc/docs/subnets#additional-ipv4-considerations
                replacement_trigger=f"{args.region} {args.ranges.text}",
            ),
        )
        subnet = gcp.compute.Subnetwork(
            f"{name}-subnet",
            project=args.project,
            region=args.region,
            network=network.id,
            ip_cidr_range=args.ranges.machines,
            # Lets machines reach Google's APIs, such as buckets and registries, without the NAT.
            private_ip_google_access=True,
            secondary_ip_ranges=[
                gcp.compute.SubnetworkSecondaryIpRangeArgs(range_name=range_name, ip_cidr_range=cidr)
                for range_name, cidr in secondary.items()
                if cidr
            ],
            opts=pulumi.ResourceOptions(parent=self, custom_timeouts=deletion),
        )
        router = gcp.compute.Router(
            f"{name}-router",
            project=args.project,
            region=args.region,
            network=network.id,
            opts=pulumi.ResourceOptions(parent=self),
        )
        nat = gcp.compute.RouterNat(
            f"{name}-nat",
            project=args.project,
            region=args.region,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            # By default a machine has a fixed number of ports, and many downloads at once use them up
            # (assumption nat-ports).
            enable_dynamic_port_allocation=True,
            log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._network_id: pulumi.Output[str] = network.id
        self.subnet_id: pulumi.Output[str] = subnet.id
        self.egress: pulumi.Resource = nat

    def for_cluster(self) -> ClusterSubnet:
        """The subnet, for a cluster. It must have ranges for pods and services."""
        return ClusterSubnet(
            network=self._network_id,
            subnet=self.subnet_id,
            pods=_PODS,
            services=_SERVICES,
            egress=(self.egress,),
        )
