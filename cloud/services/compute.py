"""Compute Engine: networks.

Names: https://docs.cloud.google.com/compute/docs/naming-resources
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any, Final

from cloud.inputs import is_set, is_unknown, numbers, texts
from cloud.record import Billed, Existing, Inputs, Listing, Minutes, Name, Problem, Record, verbs
from cloud.rules import RFC1035, RFC1035_RULE, at_least, excludes

API: Final = "compute.googleapis.com"
_billed = partial(Billed, service="E505-1604-58F8")
_NAME: Final = Name(pattern=RFC1035 % 61, rule=RFC1035_RULE % 63, automatic=True)
_SHORTEST_RANGE: Final = 29
_PORTS: Final = tuple(2**power for power in range(5, 17))


def _ranges(inputs: Inputs) -> Iterator[Problem]:
    """Ranges are IPv4 networks of at least 8 addresses that do not overlap. Their names are valid."""
    for name in texts(inputs, "secondaryIpRanges[].rangeName"):
        if not re.fullmatch(_NAME.pattern, name):
            yield "secondaryIpRanges[].rangeName", f"{name!r} is not a valid name: {_NAME.rule}"
    sources = ("ipCidrRange", "reservedInternalRange", "ipCollection")
    if not any(is_set(inputs, source) for source in sources) and inputs.get("stackType") != "IPV6_ONLY":
        yield "ipCidrRange", "a subnetwork needs a range, or what one is taken from"
    networks: list[ipaddress.IPv4Network] = []
    for path in ("ipCidrRange", "secondaryIpRanges[].ipCidrRange"):
        for text in texts(inputs, path):
            try:
                networks.append(ipaddress.IPv4Network(text))
            except ValueError as error:
                yield path, f"invalid CIDR block: {error}"
    yield from _network_problems(networks)


def _network_problems(networks: Sequence[ipaddress.IPv4Network]) -> Iterator[Problem]:
    """Networks have at least 8 addresses and do not overlap."""
    for network in networks:
        if network.prefixlen > _SHORTEST_RANGE:
            yield "ipCidrRange", f"{network} is smaller than /{_SHORTEST_RANGE}"
    for one, other in combinations(networks, 2):
        if one.overlaps(other):
            yield "secondaryIpRanges", f"{one} and {other} overlap"


def _ports(inputs: Inputs) -> Iterator[Problem]:
    """Ports of a machine. With a fixed number of them Google rounds up to a power of two.

    https://docs.cloud.google.com/compute/docs/reference/rest/v1/routers
    """
    for ports in numbers(inputs, "minPortsPerVm"):
        if is_set(inputs, "enableDynamicPortAllocation") and ports not in _PORTS:
            yield "minPortsPerVm", f"{ports} is not a power of two from 32 on, as dynamic allocation needs it"
    yield from at_least(inputs, 0, "minPortsPerVm")
    yield from excludes(inputs, "enableDynamicPortAllocation", "enableEndpointIndependentMapping")


def _shrinks(old: Any, new: Any) -> bool:
    """Whether a range is not inside the new range, or one of the two cannot be read."""
    if is_unknown(old) or is_unknown(new):
        return True
    try:
        return not ipaddress.IPv4Network(old).subnet_of(ipaddress.IPv4Network(new))
    except ValueError:
        return True


def _ranges_of(inputs: Inputs) -> Iterator[ipaddress.IPv4Network]:
    for path in ("ipCidrRange", "secondaryIpRanges[].ipCidrRange"):
        yield from map(ipaddress.IPv4Network, texts(inputs, path))


def _free_ranges(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """The subnets of a network do not overlap.

    https://docs.cloud.google.com/vpc/docs/subnets#additional-ipv4-considerations
    """
    for other in existing.of_type("gcp:compute/subnetwork:Subnetwork"):
        if _is_it(other, inputs) or other.inputs.get("network") != inputs.get("network"):
            continue
        for one, taken in product(_ranges_of(inputs), _ranges_of(other.inputs)):
            if one.overlaps(taken):
                yield f"Invalid IPCidrRange: {one} conflicts with existing subnetwork {other.id!r}."


def _ranges_in_use(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """A secondary range keeps its addresses as long as a cluster has it.

    https://docs.cloud.google.com/vpc/docs/create-modify-vpc-networks#add-secondary-range
    """
    subnet = next((item for item in existing.of_type(SUBNETWORK.type) if _is_it(item, inputs)), None)
    if subnet is None:
        return
    clusters = existing.of_type("gcp:container/cluster:Cluster")
    users = [item for item in clusters if subnet.is_named(str(item.inputs.get("subnetwork")))]
    kept = {entry["rangeName"]: entry["ipCidrRange"] for entry in inputs.get("secondaryIpRanges", ())}
    for entry in subnet.inputs.get("secondaryIpRanges", ()):
        if users and kept.get(entry["rangeName"]) != entry["ipCidrRange"]:
            yield f"The secondary range {entry['rangeName']} of {subnet.id!r} is in use by {users[0].id!r}."


def _is_it(item: Any, inputs: Inputs) -> bool:
    return all(item.inputs.get(key) == inputs.get(key) for key in ("name", "region", "network"))


def listing(title: str, collection: str, noun: str, **more: Any) -> Listing:
    """Where a collection of Compute Engine is listed.

    Args:
        noun: What gcloud calls it.
    """
    gcloud = f"compute {noun} delete {{name}} {{scope}}"
    return Listing(title=title, api="compute.v1", collection=collection, gcloud=gcloud, **more)


_record = partial(Record, api=API, role="roles/compute.networkAdmin", name=_NAME)
_linked = partial(_record, outputs={"selfLink": "https://www.googleapis.com/compute/v1/{id}"})

NETWORK: Final = _linked(
    type="gcp:compute/network:Network",
    id="projects/{project}/global/networks/{name}",
    replaced_by="autoCreateSubnetworks description internalIpv6Range name networkProfile params project",
    defaults={"autoCreateSubnetworks": True},
    minutes=(Minutes(create=0.35, delete=0.5, assumption="minutes-call"),),
    listing=listing("network", "networks", "networks"),
    permissions=verbs("compute.networks", "create", "delete", "get"),
    quota="networks",
)

SUBNETWORK: Final = _linked(
    type="gcp:compute/subnetwork:Subnetwork",
    id="projects/{project}/regions/{region}/subnetworks/{name}",
    replaced_by=(
        "description externalIpv6Prefix internalIpv6Prefix name network params project region "
        "reservedInternalRange resolveSubnetMask"
    ),
    replaced_when={"ipCidrRange": _shrinks},
    kept="secondaryIpRanges.ipCidrRange",
    references={"network": NETWORK.type},
    holds=(NETWORK.type,),
    rules=(_ranges,),
    admission=(_free_ranges, _ranges_in_use),
    minutes=(Minutes(create=0.3, delete=0.3, assumption="minutes-call"),),
    listing=listing("subnet", "subnetworks", "networks subnets"),
    permissions=(
        "compute.networks.updatePolicy",
        *verbs("compute.subnetworks", "create", "delete", "get", "update", "use"),
    ),
    quota="subnetworks",
)

ROUTER: Final = _linked(
    type="gcp:compute/router:Router",
    id="projects/{project}/regions/{region}/routers/{name}",
    replaced_by="encryptedInterconnectRouter name nccGateway network params project region",
    references={"network": NETWORK.type},
    holds=(NETWORK.type,),
    listing=listing("router", "routers", "routers"),
    permissions=verbs("compute.routers", "create", "delete", "get", "update"),
    quota="routers",
)

NAT: Final = _record(
    type="gcp:compute/routerNat:RouterNat",
    id="{project}/{region}/{router}/{name}",
    replaced_by="endpointTypes initialNatIps name project region router type",
    references={"router": ROUTER.type},
    rules=(_ports,),
    permissions=verbs("compute.routers", "get", "update"),
    billed=(
        _billed(
            key="nat.address",
            what="Cloud NAT's address",
            unit="hour",
            description="Networking Cloud NAT IP Usage",
        ),
        _billed(
            key="nat.data",
            what="through Cloud NAT: model, data set, image",
            unit="GiB",
            description="Networking Cloud Nat Data Processing",
        ),
    ),
)
