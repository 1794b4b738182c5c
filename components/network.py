"""The private network of a stack, with NAT for connections to the internet."""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.component import Args, Component

# 4,092 addresses.
_MACHINES_RANGE: Final = "10.0.0.0/20"
PODS_RANGE: Final = "pods"
SERVICES_RANGE: Final = "services"
# A cluster needs these besides the range of its nodes: 65,536 addresses for pods (1,024 nodes of an
# Autopilot cluster) and 4,096 for services.
KUBERNETES_RANGES: Final = {PODS_RANGE: "10.4.0.0/16", SERVICES_RANGE: "10.8.0.0/20"}

# The network endpoint groups and firewall rules of a deleted cluster disappear minutes after it. Until then
# the network cannot be deleted.
# https://github.com/decisionbox-io/decisionbox-platform/issues/87
_CLUSTER_TIMEOUT: Final = "20m"


class NetworkArgs(Args):
    """Arguments of `Network`.

    Args:
        secondary_ranges: Secondary IP ranges by name. A cluster needs `KUBERNETES_RANGES`.
        delete_timeout: How long destroy retries while a deleted resource still holds an address or a rule.
    """

    project: pulumi.Input[str]
    region: str
    secondary_ranges: Mapping[str, str] = field(default_factory=dict)
    delete_timeout: str = _CLUSTER_TIMEOUT


class Network(Component[NetworkArgs]):
    """A VPC with one subnet. Its machines have no public address and reach the internet through NAT.

    Attributes:
        egress: The NAT, for which a workload that uses the internet must wait.
    """

    group = "network"
    apis = ("compute.googleapis.com",)

    def _declare(self, name: str, args: NetworkArgs) -> None:
        deletion = pulumi.CustomTimeouts(delete=args.delete_timeout)
        network = gcp.compute.Network(
            f"{name}-network",
            project=args.project,
            auto_create_subnetworks=False,
            opts=pulumi.ResourceOptions(parent=self, custom_timeouts=deletion),
        )
        subnet = gcp.compute.Subnetwork(
            f"{name}-subnet",
            project=args.project,
            region=args.region,
            network=network.id,
            ip_cidr_range=_MACHINES_RANGE,
            # Lets machines reach Google's APIs, such as buckets and registries, without the NAT.
            private_ip_google_access=True,
            secondary_ip_ranges=[
                gcp.compute.SubnetworkSecondaryIpRangeArgs(range_name=range_name, ip_cidr_range=cidr)
                for range_name, cidr in args.secondary_ranges.items()
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
        self.network_id: pulumi.Output[str] = network.id
        self.subnet_id: pulumi.Output[str] = subnet.id
        self.egress: pulumi.Resource = nat
