"""Which addresses are not the internet: for policies, firewalls and the settings of a network."""

from ipaddress import IPv4Network
from typing import Final

# What a subnet of Google's may have, besides public addresses that a company uses inside.
# https://docs.cloud.google.com/vpc/docs/subnets#valid-ranges
PRIVATE: Final = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
)
# What no subnet may have: this machine, the link, which has the metadata server, and multicast.
SPECIAL: Final = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4")
NOT_PUBLIC: Final = (*PRIVATE, *SPECIAL)


def is_within(block: IPv4Network, *ranges: str) -> bool:
    """Whether one of these ranges has all addresses of a block."""
    return any(block.subnet_of(IPv4Network(text)) for text in ranges)
