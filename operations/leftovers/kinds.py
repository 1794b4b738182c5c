"""Kinds of resources that Google's APIs list. Includes role bindings, and what GKE and Cloud Run create."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, Final

from cloud import records
from cloud.discovery import discovery
from cloud.record import Listing
from cloud.services.cloudrun import JOB, SERVICE
from cloud.services.compute import NETWORK, SUBNETWORK, listing
from cloud.services.container import CLUSTER
from cloud.services.serviceaccount import ACCOUNT
from operations.errors import CallError
from operations.google.clients import Clients, last
from operations.leftovers.candidate import Candidate
from operations.leftovers.footprint import FIREWALL_RULE, Footprint

Item = Mapping[str, Any]

# Addresses of Direct VPC have this purpose and names such as serverless-ipv4-NUMBER.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_RUN_ADDRESS: Final = ("SERVERLESS", "serverless-ipv4-")
_OF_RUN: Final = "Cloud Run gives it back one to two hours after its last user; nothing hurries it"
_OF_NAT: Final = {"NAT_AUTO": "Cloud NAT gives it back with its gateway"}

_ACCOUNT: Final = "serviceAccount:"
# A policy shows a deleted member as deleted:serviceAccount:ADDRESS?uid=NUMBER.
_DELETED: Final = "deleted:"
# Only this version shows policies with conditions as a whole.
_POLICY_VERSION: Final = 3


@dataclass(frozen=True, kw_only=True)
class ListedKind:
    """A kind of resources that a collection of an API lists.

    Args:
        listing: How the API lists them.
        type: Type token of those that a program creates. Empty for what nobody declares.
        uses: Types of resources that it uses, which cannot be deleted before it.
        holders: Types of resources that create or contain it, and whose deletion deletes it.
    """

    listing: Listing
    type: str = ""
    uses: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The title of the kind."""
        return self.listing.title

    def find(self, clients: Clients, wanted: Footprint) -> Iterator[Candidate]:
        """All resources of this kind.

        Raises:
            CallError: When the API does not list them.
        """
        collection, inside = self.listing.collection, self.listing.inside
        collection = collection.rpartition(".")[0] if inside else collection
        method = f"{collection}.aggregatedList"
        method = method if discovery(self.listing.api).method(method) else f"{collection}.list"
        regional = "locations" in collection and not self.listing.everywhere
        locations = wanted.regions if regional else ("-",)
        for location in locations:
            arguments = self._arguments(method, wanted.project, location)
            for item in clients.every(self.listing.api, method, **arguments):
                where = location if regional else ""
                if self.listing.everywhere:
                    where = item.get("location", "")
                if not inside:
                    yield self._resource(item, where, "")
                    continue
                for part in item.get(inside) or ():
                    yield self._resource(part, where, last(item.get("name")))

    def get(self, clients: Clients, project: str, location: str, name: str) -> Candidate:
        """The resource with a name.

        Raises:
            CallError: When there is none, or the right to read it is missing.
        """
        method = f"{self.listing.collection}.get"
        arguments = self._arguments(method, project, location, name=name)
        return self._resource(clients.call(self.listing.api, method, **arguments), location, "")

    def command(self, candidate: Candidate, project: str) -> str:
        """The gcloud command that deletes one."""
        scopes, scope = self._scopes(), _scope(candidate.location)
        # gcloud needs a flag for global resources only if the kind also exists in zones or regions.
        flag = [f"--{scope}", candidate.location] if scope else []
        if not scope and len(scopes) > 1:
            flag = ["--global"]
        words = ["gcloud"]
        for word in self.listing.gcloud.split():
            filled = word.format(
                name=candidate.name, location=candidate.location, parent=candidate.parent, scope=""
            )
            words += flag if word == "{scope}" else [filled]
        return shlex.join([*words, "--project", project])

    def _arguments(self, method: str, project: str, location: str, name: str = "") -> dict[str, str]:
        """The arguments that a method needs. Without a name, the arguments of a list."""
        *outer, own, _ = method.split(".")
        ids = {"projects": project, "locations": location}
        # `-` stands for all locations.
        holder = "/".join(f"{word}/{ids.get(word, '-')}" for word in outer)
        path = f"{holder}/{own}/{name}" if name else holder
        parts = {"project": project, "zone": location, "region": location}
        required = discovery(self.listing.api).required(method)
        full = name if "/" in name else path
        return {key: full if is_path else parts.get(key, name) for key, is_path in required.items()}

    def _scopes(self) -> set[str]:
        """The scopes that the kind exists in: zone, region or neither.

        `disks` and `regionDisks` are two of them.
        """
        own, described = self.listing.collection, discovery(self.listing.api)
        capital = own[0].upper() + own[1:]
        deletions = (f"{name}.delete" for name in (own, f"region{capital}", f"global{capital}"))
        scopes = set()
        for method in filter(described.method, deletions):
            needed = described.required(method)
            scopes.add(next((scope for scope in ("zone", "region") if scope in needed), ""))
        return scopes

    def _resource(self, item: Item, location: str, parent: str) -> Candidate:
        interface = (item.get("networkInterfaces") or [item])[0]
        purpose, name = item.get("purpose", ""), last(item.get("name"))
        of_run = purpose == _RUN_ADDRESS[0] or name.startswith(_RUN_ADDRESS[1])
        return Candidate(
            type=self.type,
            name=item.get("email") or name,
            location=last(item.get("zone") or item.get("region")) or location,
            parent=parent or last(item.get("service")),
            # The labels of a notification channel are its address.
            labels=item.get("userLabels") or item.get("labels") or item.get("resourceLabels") or {},
            network=last(interface.get("network")),
            subnet=last(interface.get("subnetwork")),
            owner=last(item.get("service")),
            detail=self.listing.detail(item),
            given_back=_OF_RUN if of_run else _OF_NAT.get(purpose, ""),
            created=_created(item),
        )


def _scope(location: str) -> str:
    """`us-central1-a` is a zone, `us-central1` a region."""
    if not location:
        return ""
    return "zone" if location.count("-") > 1 else "region"


def _created(item: Item) -> datetime | None:
    """When a resource was created, by the field of its API. None without such a field."""
    stated = (item.get(field) for field in ("createTime", "creationTimestamp", "timeCreated"))
    try:
        return datetime.fromisoformat(next(filter(None, stated)))
    except (StopIteration, ValueError):
        return None


def _facts(item: Item) -> str:
    """Size, machine type, address and users, as far as a resource has them."""
    facts = [f"{item['sizeGb']} GB"] if item.get("sizeGb") else []
    facts += [last(item["machineType"])] if item.get("machineType") else []
    facts += [item[key] for key in ("IPAddress", "address") if item.get(key)]
    facts += [f"used by {last(user)}" for user in item.get("users") or ()]
    return ", ".join(facts)


_REVISION: Final = Listing(
    title="revision",
    api="run.v2",
    collection="projects.locations.services.revisions",
    gcloud="run revisions delete {name} --region {location}",
)
# Kinds that GKE and Cloud Run create in a network.
_MADE_FOR_OTHERS: Final = (
    listing("forwarding rule", "forwardingRules", "forwarding-rules", detail=_facts),
    listing("instance", "instances", "instances", detail=_facts),
    listing("network endpoint group", "networkEndpointGroups", "network-endpoint-groups", detail=_facts),
    listing("address", "addresses", "addresses", detail=_facts),
    listing("disk", "disks", "disks", detail=_facts),
    listing(FIREWALL_RULE, "firewalls", "firewall-rules", detail=_facts),
)


class Bindings:
    """Roles of service accounts on the project, and on repositories outside the stack.

    Has the methods of `ListedKind`.
    """

    title = "role binding"
    type = ""

    def find(self, clients: Clients, wanted: Footprint) -> Iterator[Candidate]:
        """All role bindings of service accounts."""
        for resource in (f"projects/{wanted.project}", *wanted.repositories):
            try:
                policy = _read(clients, resource)
            except CallError as error:
                # If somebody deleted the repository since, its bindings went with it.
                if resource in wanted.repositories and error.missing:
                    continue
                raise
            for binding in policy.get("bindings") or ():
                for member in binding.get("members") or ():
                    if owner := _account(member):
                        yield Candidate(
                            type="", name=binding.get("role", ""), parent=resource, owner=owner, detail=member
                        )

    def command(self, candidate: Candidate, project: str) -> str:
        """The gcloud command that deletes one."""
        words = ["--member", candidate.detail, "--role", candidate.name]
        if "/repositories/" not in candidate.parent:
            # The command works with any condition of the binding.
            return shlex.join(["gcloud", "projects", "remove-iam-policy-binding", project, *words, "--all"])
        _, owner, _, location, _, repository = candidate.parent.split("/")
        verb = ["gcloud", "artifacts", "repositories", "remove-iam-policy-binding", repository]
        return shlex.join([*verb, "--location", location, "--project", owner, *words])


def _read(clients: Clients, resource: str) -> dict[str, Any]:
    if "/repositories/" in resource:
        return _call(clients, "getIamPolicy", resource, options_requestedPolicyVersion=_POLICY_VERSION)
    options = {"requestedPolicyVersion": _POLICY_VERSION}
    return _call(clients, "getIamPolicy", resource, body={"options": options})


def _call(clients: Clients, verb: str, resource: str, **arguments: Any) -> dict[str, Any]:
    api, collection = "cloudresourcemanager.v3", "projects"
    if "/repositories/" in resource:
        api, collection = "artifactregistry.v1", "projects.locations.repositories"
    return clients.call(api, f"{collection}.{verb}", resource=resource, **arguments)


def _account(member: str) -> str:
    """Address of a service account, empty for another member."""
    name = member.removeprefix(_DELETED)
    return name.removeprefix(_ACCOUNT).partition("?")[0] if name.startswith(_ACCOUNT) else ""


Kind = ListedKind | Bindings


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds in the order of deletion: a resource comes after its users and its containers."""
    listed_kinds = [ListedKind(listing=_REVISION, holders=(SERVICE.type,))]
    used, creators = (NETWORK.type, SUBNETWORK.type), (CLUSTER.type, JOB.type, SERVICE.type)
    listed_kinds += (ListedKind(listing=listed, uses=used, holders=creators) for listed in _MADE_FOR_OTHERS)
    for record in records.every().values():
        if record.listing:
            role = "holders" if record.listing.inside else "uses"
            # A repository may be in front of others, which does not put its kind before itself.
            others = [other for other in record.references.values() if other != record.type]
            referred = {role: tuple(dict.fromkeys(others))}
            listed_kinds.append(ListedKind(listing=record.listing, type=record.type, **referred))
    sorter = TopologicalSorter[ListedKind]()
    for kind in listed_kinds:
        sorter.add(kind, *(other for other in listed_kinds if _precedes(other, kind)))
    ordered = [*sorter.static_order()]
    # A service account comes last, when nothing names it any more.
    accounts = [kind for kind in ordered if kind.type == ACCOUNT.type]
    return (*(kind for kind in ordered if kind not in accounts), Bindings(), *accounts)


def _precedes(one: ListedKind, other: ListedKind) -> bool:
    return other.type in one.uses or one.type in other.holders
