"""Rules of networks."""

import ipaddress
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from cloud.inputs import given, texts
from rehearsal.schema import Problem

_NAT_ALLOCATIONS: Final = ("AUTO_ONLY", "MANUAL_ONLY")
_NAT_SOURCES: Final = (
    "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES",
    "LIST_OF_SUBNETWORKS",
)
_SHORTEST_RANGE: Final = 29


def subnetwork(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Ranges are IPv4 networks of at least 8 addresses that do not overlap."""
    ranges: list[ipaddress.IPv4Network] = []
    for path in ("ipCidrRange", "secondaryIpRanges[].ipCidrRange"):
        for text in texts(inputs, path):
            try:
                ranges.append(ipaddress.IPv4Network(text))
            except ValueError as error:
                yield path, f"invalid CIDR block: {error}"
    for found in ranges:
        if found.prefixlen > _SHORTEST_RANGE:
            yield "ipCidrRange", f"{found} is smaller than /{_SHORTEST_RANGE}"
    for one, other in combinations(ranges, 2):
        if one.overlaps(other):
            yield "secondaryIpRanges", f"{one} and {other} overlap"


def router_nat(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Enumerations, and addresses that go with a manual allocation alone."""
    yield from one_of(inputs, "natIpAllocateOption", _NAT_ALLOCATIONS)
    yield from one_of(inputs, "sourceSubnetworkIpRangesToNat", _NAT_SOURCES)
    yield from one_of(inputs, "logConfig.filter", ("ERRORS_ONLY", "TRANSLATIONS_ONLY", "ALL"))
    if given(inputs, "natIps") and "MANUAL_ONLY" not in texts(inputs, "natIpAllocateOption"):
        yield "natIps", "needs natIpAllocateOption MANUAL_ONLY"


def firewall(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """A rule allows or denies, not both."""
    yield from one_of(inputs, "direction", ("INGRESS", "EGRESS"))
    if given(inputs, "allows") == given(inputs, "denies"):
        yield "allows", "exactly one of allows and denies is needed"


def one_of(inputs: Mapping[str, Any], path: str, choices: tuple[str, ...]) -> Iterator[Problem]:
    """A text that must be one of a few."""
    for text in texts(inputs, path):
        if text not in choices:
            yield path, f"{text!r} is not one of {', '.join(choices)}"


def excludes(inputs: Mapping[str, Any], one: str, *others: str) -> Iterator[Problem]:
    """Properties that must not be given together with `one`."""
    for other in others:
        if given(inputs, one) and given(inputs, other):
            yield other, f"conflicts with {one}"
