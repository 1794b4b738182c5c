"""Kinds of things of Compute Engine: disks, networks and what hangs on them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from operations.leftovers.thing import Place, Thing, Wait, last

_API: Final = "compute.v1"
_CLUSTER_LABEL: Final = "goog-k8s-cluster-name"
# Direct VPC's addresses have this purpose and are named serverless-ipv4-NUMBER.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_RUN_ADDRESS: Final = "SERVERLESS"
_RUN_NAME: Final = "serverless-ipv4-"
_NAT_ADDRESS: Final = "NAT_AUTO"


@dataclass(frozen=True, kw_only=True)
class ComputeKind:
    """Things of one collection of Compute Engine.

    Args:
        title: What one is called.
        noun: What gcloud calls them, after `gcloud compute`.
        parameter: What the API calls the name of one.
        collections: Collection that deletes one, by scope: `zones`, `regions`, `global`.
        type: Type token of the program's own ones.
        flags: Flags of the gcloud command besides the place.
    """

    title: str
    noun: str
    parameter: str
    collections: Mapping[str, str]
    type: str = ""
    flags: str = ""

    @property
    def _collection(self) -> str:
        """The collection that lists all of them."""
        return next(iter(self.collections.values()))

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        collection = getattr(place.clients.api(_API), self._collection)()
        if [*self.collections] == ["global"]:
            items = place.clients.every(collection, "items", project=place.project)
        else:
            scopes = place.clients.every(collection, "items", "aggregatedList", project=place.project)
            items = [item for _, scope in scopes for item in scope.get(self._collection, ())]
        for item in items:
            yield self._thing(item)

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        where = {"zones": f" --zone {thing.location}", "regions": f" --region {thing.location}"}
        # Only what exists in several scopes is told by a flag that it is global.
        everywhere = " --global" if len(self.collections) > 1 else ""
        flag = where.get(_scope(thing.location), everywhere)
        return f"gcloud compute {self.noun} delete {thing.name}{flag}{self.flags} --project {place.project}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        scope = _scope(thing.location)
        at = {} if scope == "global" else {scope.removesuffix("s"): thing.location}
        api = place.clients.api(_API)
        collection = getattr(api, self.collections[scope])()
        started = place.clients.call(
            collection.delete(project=place.project, **at, **{self.parameter: thing.name})
        )
        operations = getattr(api, f"{scope.removesuffix('s')}Operations")()
        wait(
            lambda: place.clients.call(
                operations.get(project=place.project, **at, operation=str(started.get("name")))
            )
        )

    def _thing(self, item: Mapping[str, Any]) -> Thing:
        labels = item.get("labels") or {}
        interfaces = item.get("networkInterfaces") or [{}]
        purpose = item.get("purpose", "")
        of_run = purpose == _RUN_ADDRESS or item.get("name", "").startswith(_RUN_NAME)
        return Thing(
            kind=self,
            name=item.get("name", ""),
            location=last(item.get("zone") or item.get("region")),
            labels=labels,
            network=last(item.get("network") or interfaces[0].get("network")),
            subnet=last(item.get("subnetwork") or interfaces[0].get("subnetwork")),
            cluster=labels.get(_CLUSTER_LABEL, ""),
            detail=_detail(item),
            keeper="Cloud Run" if of_run else "Cloud NAT" if purpose == _NAT_ADDRESS else "",
        )


_EVERYWHERE: Final = ("zones", "regions", "global")


def _collections(plural: str, *scopes: str) -> dict[str, str]:
    """The names that Compute Engine gives the collections of one kind in its scopes."""
    first, *others = scopes
    capital = plural[0].upper() + plural[1:]
    return {first: plural, **{scope: f"{scope.removesuffix('s')}{capital}" for scope in others}}


def _kind(
    title: str, noun: str, parameter: str, *scopes: str, plural: str = "", type: str = "", flags: str = ""
) -> ComputeKind:
    collections = _collections(plural or f"{parameter}s", *scopes)
    return ComputeKind(
        title=title, noun=noun, parameter=parameter, collections=collections, type=type, flags=flags
    )


FORWARDING_RULES: Final = _kind("forwarding rule", "forwarding-rules", "forwardingRule", "regions", "global")
INSTANCES: Final = _kind("instance", "instances", "instance", "zones")
ENDPOINT_GROUPS: Final = _kind(
    "network endpoint group", "network-endpoint-groups", "networkEndpointGroup", *_EVERYWHERE
)
ADDRESSES: Final = _kind("address", "addresses", "address", "regions", "global", plural="addresses")
DISKS: Final = _kind("disk", "disks", "disk", "zones", "regions")
FIREWALLS: Final = _kind(
    "firewall rule", "firewall-rules", "firewall", "global", type="gcp:compute/firewall:Firewall"
)
ROUTERS: Final = _kind("router", "routers", "router", "regions", type="gcp:compute/router:Router")
SUBNETS: Final = _kind(
    "subnet", "networks subnets", "subnetwork", "regions", type="gcp:compute/subnetwork:Subnetwork"
)
NETWORKS: Final = _kind("network", "networks", "network", "global", type="gcp:compute/network:Network")


def _scope(location: str) -> str:
    """`us-central1-a` is a zone, `us-central1` a region."""
    return "global" if not location else "zones" if location.count("-") > 1 else "regions"


def _detail(item: Mapping[str, Any]) -> str:
    facts = [f"{item['sizeGb']} GB"] if item.get("sizeGb") else []
    facts += [last(item["machineType"])] if item.get("machineType") else []
    facts += [item["IPAddress"]] if item.get("IPAddress") else []
    facts += [item["address"]] if item.get("address") else []
    facts += [f"used by {last(user)}" for user in item.get("users") or ()]
    return ", ".join(facts)
