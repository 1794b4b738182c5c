"""The network of a stack: its own, private, with a way out."""

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
# What a cluster needs beside its nodes: 65,536 addresses for pods (1,024 nodes of an Autopilot
# cluster) and 4,096 for services.
KUBERNETES_RANGES: Final = {PODS_RANGE: "10.4.0.0/16", SERVICES_RANGE: "10.8.0.0/20"}

# Network endpoint groups and firewall rules of a deleted cluster vanish minutes after it and block
# the deletion until then.
# https://github.com/decisionbox-io/decisionbox-platform/issues/87
_CLUSTER_TIMEOUT: Final = "20m"


class NetworkArgs(Args):
    """Arguments of `Network`.

    Args:
        secondary_ranges: Name to range of what lives beside the machines; for a cluster `KUBERNETES_RANGES`.
        delete_timeout: How long destroy tries while something deleted still holds an address or a rule.
    """

    project: pulumi.Input[str]
    region: str
    secondary_ranges: Mapping[str, str] = field(default_factory=dict)
    delete_timeout: str = _CLUSTER_TIMEOUT


class Network(Component[NetworkArgs]):
    """A VPC with one subnet whose machines have no public address and reach out through NAT.

    Attributes:
        egress: What a workload that talks to the internet must wait for.
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
            # Buckets and registries without the NAT.
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
            # A machine has a fixed number of ports otherwise, which many downloads at once use up
            # (assumption nat-ports).
            enable_dynamic_port_allocation=True,
            log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.network_id: pulumi.Output[str] = network.id
        self.subnet_id: pulumi.Output[str] = subnet.id
        self.egress: pulumi.Resource = nat
