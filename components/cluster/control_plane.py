"""The way to a cluster's control plane: by which address, from which networks, and how clients trust it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Any, Final

import pulumi
import pulumi_gcp as gcp


class ControlPlaneType(StrEnum):
    """The address of the control plane, in the spelling of the setting `controlPlane`."""

    DNS = "dns"
    PUBLIC = "public"
    PRIVATE = "private"


# The option of `gcloud container clusters get-credentials` for each address.
_CONNECT_OPTIONS: Final[Mapping[ControlPlaneType, str]] = {
    ControlPlaneType.DNS: " --dns-endpoint",
    ControlPlaneType.PUBLIC: "",
    ControlPlaneType.PRIVATE: " --internal-ip",
}


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """How a cluster's control plane is reached. No other place knows how GKE spells it.

    With `dns` the control plane has no IP address for clients. Google's front end has a name of its own
    for each cluster, and lets in who has the permission container.clusters.connect (assumption
    dns-endpoint). https://docs.cloud.google.com/kubernetes-engine/docs/concepts/network-isolation

    Args:
        type: Which address.
        authorized_networks: Networks that may connect to an IP address, in CIDR notation. Required with an IP
            address, refused with `dns`.

    Raises:
        ValueError: If type and networks do not belong together, or a text is not a network.
    """

    type: ControlPlaneType = ControlPlaneType.DNS
    authorized_networks: Sequence[str] = ()

    def __post_init__(self) -> None:
        is_dns = self.type is ControlPlaneType.DNS
        if is_dns and self.authorized_networks:
            raise ValueError(
                "the DNS endpoint knows identities and no networks, and would ignore the list; remove "
                "authorizedNetworks, or set controlPlane to public or private"
            )
        if not is_dns and not self.authorized_networks:
            raise ValueError(
                f"missing, and controlPlane is {self.type}; name the networks that may connect with `pulumi "
                "config set authorizedNetworks '[\"203.0.113.0/24\"]'`, or remove controlPlane"
            )
        for text in self.authorized_networks:
            self._check(text)

    def _check(self, text: str) -> None:
        try:
            network = IPv4Network(text)
        except ValueError:
            network = None
        # The class reads other notations too, such as an address without a length.
        if network is None or str(network) != text:
            raise ValueError(f"{text!r} is not a network in CIDR notation such as 203.0.113.0/24")
        if self.type is ControlPlaneType.PRIVATE and network.is_global:
            raise ValueError(
                f"{text!r} is a public network, which cannot reach a private address; name a private one, or "
                "set controlPlane to public"
            )

    def properties(self) -> dict[str, Any]:
        """Arguments of the SDK's cluster."""
        is_dns = self.type is ControlPlaneType.DNS
        networks = gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
            cidr_blocks=[
                gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(cidr_block=text)
                for text in self.authorized_networks
            ],
            # By default every virtual machine of Google Cloud with a public address may connect too.
            gcp_public_cidrs_access_enabled=False,
        )
        return {
            "control_plane_endpoints_config": gcp.container.ClusterControlPlaneEndpointsConfigArgs(
                dns_endpoint_config=gcp.container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
                    allow_external_traffic=is_dns
                ),
                ip_endpoints_config=gcp.container.ClusterControlPlaneEndpointsConfigIpEndpointsConfigArgs(
                    enabled=not is_dns
                ),
            ),
            "master_authorized_networks_config": None if is_dns else networks,
            "private_cluster_config": gcp.container.ClusterPrivateClusterConfigArgs(
                enable_private_nodes=True, enable_private_endpoint=self.type is ControlPlaneType.PRIVATE
            ),
        }

    def address(self, cluster: gcp.container.Cluster) -> pulumi.Output[str]:
        """The name or IP address that clients connect to."""
        if self.type is ControlPlaneType.DNS:
            return cluster.control_plane_endpoints_config.dns_endpoint_config.endpoint
        return cluster.endpoint

    def authority(self, cluster: gcp.container.Cluster) -> pulumi.Input[Mapping[str, str]]:
        """Entry of a kubeconfig with the authority that signs the control plane's certificate.

        It is empty with `dns`: a public authority signs the certificate of Google's front end, and clients
        that are told the cluster's own authority refuse it.
        https://github.com/gke-labs/kube-agents/issues/1797
        """
        if self.type is ControlPlaneType.DNS:
            return {}
        return cluster.master_auth.cluster_ca_certificate.apply(
            lambda certificate: {"certificate-authority-data": certificate}
        )

    def connect(self, cluster: gcp.container.Cluster) -> pulumi.Output[str]:
        """Command that connects kubectl to the cluster."""
        return pulumi.Output.format(
            "gcloud container clusters get-credentials {0} --location {1} --project {2}{3}",
            cluster.name,
            cluster.location,
            cluster.project,
            _CONNECT_OPTIONS[self.type],
        )
