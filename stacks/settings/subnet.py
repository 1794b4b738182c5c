"""The topic of a network that exists: the subnet of a scenario without a cluster."""

import re
from ipaddress import IPv4Network
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from components.network.ranges import NOT_PUBLIC
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.settings.project import Project

# Google's names of networks, subnets and their ranges.
NETWORK_NAME: Final = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
SubnetName = Annotated[
    str | None,
    Field(
        pattern=rf"^(projects/[a-z0-9.:-]+/regions/[a-z0-9-]+/subnetworks/)?{NETWORK_NAME}$",
        examples=["MY_SUBNET"],
        description="A subnet that exists, in the stack's region, with Private Google Access and a way to "
        "the internet. A path names the host project of a Shared VPC. The stack neither changes nor deletes "
        "it. By default the stack creates its own network.",
    ),
    Hint(values="the name of a subnet, or projects/PROJECT/regions/REGION/subnetworks/NAME"),
]


def _check_public(ranges: tuple[str, ...]) -> tuple[str, ...]:
    for text in ranges:
        try:
            block = IPv4Network(text)
        except ValueError:
            raise ValueError(f"{text!r} is not {_RANGES.values}") from None
        for private in NOT_PUBLIC:
            if block.overlaps(IPv4Network(private)):
                raise ValueError(f"{text} has addresses of {private}, which are never public; remove it")
    return ranges


_RANGES: Final = Hint(values="a network in CIDR notation such as 20.0.0.0/16, or a list")
InternalRanges = Annotated[
    tuple[str, ...],
    AfterValidator(_check_public),
    Field(
        description="Public addresses that your company uses inside its networks. With `egress` `https` they "
        "are not the internet, so nothing connects to them. Refused with another `egress`."
    ),
    _RANGES,
]


class Subnet(ConfigModel):
    """Network."""

    subnet: SubnetName = None

    @rule("subnet")
    def _is_in_the_region(self, project: Project) -> None:
        require_region(self.subnet, project.region)


def require_region(subnet: str | None, region: str) -> None:
    """Checks the region in the path of a subnet.

    Raises:
        ValueError: If the subnet is in another region than the stack.
    """
    place = subnet and re.search("/regions/([^/]+)/", subnet)
    if place and place[1] != region:
        raise ValueError(
            f"the subnet is in {place[1]} and the stack in {region}; name a subnet in {region}, or set "
            "gcp:region"
        )


def require_https(ranges: tuple[str, ...], egress: str) -> None:
    """Checks that `egress` looks at addresses.

    Raises:
        ValueError: If there are ranges and `egress` is not `https`.
    """
    if ranges and egress != "https":
        raise ValueError(f"only with egress https, and the stack has {egress}; remove one of the two")


def subnet_id(subnet: str | None, project: Project) -> str | None:
    """Id of a subnet that exists. None if the stack creates its own."""
    if subnet is None or "/" in subnet:
        return subnet
    return f"projects/{project.project}/regions/{project.region}/subnetworks/{subnet}"
