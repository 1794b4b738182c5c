"""The network of a scenario: one of its own, or a subnet that exists, also in a Shared VPC."""

import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Annotated, Final

import pulumi
from pydantic import Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from components.base.component import Component
from components.network.network import AddressRanges, ClusterSubnet, Network, NetworkArgs
from stacks.settings.reader import GoogleSettings, Hint

# Google's names of networks, subnets and their ranges.
_NAME: Final = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
_SUBNET: Final = rf"^(projects/[a-z0-9.:-]+/regions/[a-z0-9-]+/subnetworks/)?{_NAME}$"
_RESOURCE_NAME: Final = Hint(values="1 to 63 lower-case letters, digits and hyphens that start with a letter")
# Prefixes of the smallest ranges of a network of the stack's own. A Standard node takes 256 addresses for its
# pods. A /17 is enough for the 100 nodes that a stack may have, and for those that an upgrade adds.
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips
_LARGEST_PREFIXES: Final = {"machine_addresses": 25, "pod_addresses": 17, "service_addresses": 27}
_SHARED_SPACE: Final = IPv4Network("100.64.0.0/10")
_CIDR: Final = Hint(values="a private range in CIDR notation such as 10.0.0.0/20")
_WITHOUT_SUBNET: Final = "Refused with `subnet`."


class SubnetSettings(GoogleSettings):
    """Settings of every scenario in a network."""

    subnet: Annotated[
        str | None,
        Hint(values="the name of a subnet, or projects/PROJECT/regions/REGION/subnetworks/NAME"),
    ] = Field(
        None,
        pattern=_SUBNET,
        examples=["MY_SUBNET"],
        description="A subnet that exists, in the stack's region, with Private Google Access and a way to "
        "the internet. A path names the host project of a Shared VPC. The stack neither changes nor deletes "
        "it. By default the stack creates its own network.",
    )

    @field_validator("subnet")
    @classmethod
    def _is_in_the_region(cls, subnet: str | None, info: ValidationInfo) -> str | None:
        region = info.data.get("region")
        place = subnet and re.search("/regions/([^/]+)/", subnet)
        if place and region and place[1] != region:
            raise ValueError(
                f"the subnet is in {place[1]} and the stack in {region}; name a subnet in {region}, or set "
                "gcp:region"
            )
        return subnet

    @property
    def existing_subnet(self) -> str | None:
        """Id of the subnet that exists. None if the stack creates its own."""
        if self.subnet is None or "/" in self.subnet:
            return self.subnet
        return f"projects/{self.project}/regions/{self.region}/subnetworks/{self.subnet}"


class ClusterNetworkSettings(SubnetSettings):
    """Settings of every scenario with a cluster."""

    network: Annotated[str | None, _RESOURCE_NAME] = Field(
        None,
        pattern=f"^{_NAME}$",
        validate_default=True,
        examples=["MY_NETWORK"],
        description="Name of the VPC with `subnet`, in the subnet's project. Required with `subnet`, and "
        "refused without it.",
    )
    pods_range: Annotated[str | None, _RESOURCE_NAME] = Field(
        None,
        pattern=f"^{_NAME}$",
        validate_default=True,
        examples=["MY_PODS"],
        description="Name of the secondary range of `subnet` for pods. A Standard node takes 256 of its "
        "addresses. Required with `subnet`, and refused without it.",
    )
    services_range: Annotated[str | None, _RESOURCE_NAME] = Field(
        None,
        pattern=f"^{_NAME}$",
        validate_default=True,
        examples=["MY_SERVICES"],
        description="Name of the secondary range of `subnet` for services. Required with `subnet`, and "
        "refused without it.",
    )
    machine_addresses: Annotated[str, _CIDR] = Field(
        "10.0.0.0/20",
        alias="ownNetwork.machines",
        validate_default=True,
        description="Addresses of the machines in the stack's own network. If you will connect it "
        f"to another network, choose ranges that the other one does not use. {_WITHOUT_SUBNET}",
    )
    pod_addresses: Annotated[str, _CIDR] = Field(
        "10.4.0.0/16",
        alias="ownNetwork.pods",
        validate_default=True,
        description=f"Addresses of the pods in the stack's own network, a /17 or larger. {_WITHOUT_SUBNET}",
    )
    service_addresses: Annotated[str, _CIDR] = Field(
        "10.8.0.0/20",
        alias="ownNetwork.services",
        validate_default=True,
        description=f"Addresses of the services in the stack's own network. {_WITHOUT_SUBNET}",
    )

    @field_validator("network", "pods_range", "services_range")
    @classmethod
    def _belongs_to_a_subnet(cls, name: str | None, info: ValidationInfo) -> str | None:
        if "subnet" not in info.data:
            return name
        key, subnet = to_camel(str(info.field_name)), info.data["subnet"]
        if subnet and name is None:
            raise ValueError(f"missing, and subnet needs it; set it with `pulumi config set {key} NAME`")
        if name and not subnet:
            raise ValueError("only with subnet, which the stack does not have; set subnet, or remove this")
        return name

    @field_validator("machine_addresses", "pod_addresses", "service_addresses")
    @classmethod
    def _are_free(cls, text: str, info: ValidationInfo) -> str:
        """Rejects what Google would refuse too late, and addresses that policies would let out."""
        name = str(info.field_name)
        if info.data.get("subnet"):
            if text != cls.model_fields[name].default:
                raise ValueError("with subnet the stack has no network of its own; remove one of the two")
            return text
        try:
            block = IPv4Network(text)
        except ValueError:
            raise ValueError(f"{text!r} is not {_CIDR.values}") from None
        if not block.is_private and not block.subnet_of(_SHARED_SPACE):
            raise ValueError(
                f"{text} has public addresses, which the policies of the pods treat as the internet; take a "
                "range in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10"
            )
        largest = _LARGEST_PREFIXES[name]
        if block.prefixlen > largest:
            raise ValueError(f"{text} is too small; take a /{largest} or larger")
        for other in [key for key in _LARGEST_PREFIXES if key in info.data]:
            if block.overlaps(IPv4Network(info.data[other])):
                key = cls.model_fields[other].alias
                raise ValueError(f"{text} overlaps with {info.data[other]} of {key}; choose another range")
        return text


def cluster_subnet(
    name: str,
    settings: ClusterNetworkSettings,
    project_for: Callable[[type[Component]], pulumi.Output[str]],
) -> ClusterSubnet:
    """Declares the network of a cluster, or names the one from the settings.

    Args:
        name: Name of the scenario.
        settings: The stack's settings.
        project_for: The project id, as an output that is known once a component's APIs are enabled.
    """
    subnet = settings.existing_subnet
    if subnet and settings.network and settings.pods_range and settings.services_range:
        host = subnet.split("/")[1]
        return ClusterSubnet(
            network=f"projects/{host}/global/networks/{settings.network}",
            subnet=subnet,
            pods=settings.pods_range,
            services=settings.services_range,
        )
    ranges = AddressRanges(
        machines=settings.machine_addresses,
        pods=settings.pod_addresses,
        services=settings.service_addresses,
    )
    return Network(
        name, NetworkArgs(project=project_for(Network), region=settings.region, ranges=ranges)
    ).for_cluster()
