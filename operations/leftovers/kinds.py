"""Kinds of things that Google's APIs list: an entry each, and the API's own description says the rest."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloud.discovery import discovery
from operations.leftovers.thing import Place, Thing, Wait, last

Item = Mapping[str, Any]

CLUSTER: Final = "gcp:container/cluster:Cluster"
NODE_POOL: Final = "gcp:container/nodePool:NodePool"
REPOSITORY: Final = "gcp:artifactregistry/repository:Repository"
ACCOUNT: Final = "gcp:serviceaccount/account:Account"
RUN_JOB: Final = "gcp:cloudrunv2/job:Job"
RUN_SERVICE: Final = "gcp:cloudrunv2/service:Service"

_CLUSTER_LABEL: Final = "goog-k8s-cluster-name"
# Direct VPC's addresses have this purpose and are named serverless-ipv4-NUMBER.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_RUN_ADDRESS: Final = "SERVERLESS"
_RUN_NAME: Final = "serverless-ipv4-"
_NAT_ADDRESS: Final = "NAT_AUTO"
_GIB: Final = 1024**3
# Of the APIs whose deletions go on after the answer; Compute Engine's depend on the scope.
_OPERATIONS: Final = "projects.locations.operations"


def _facts(item: Item) -> str:
    """Size, machine type, address and users, as far as a thing has them."""
    facts = [f"{item['sizeGb']} GB"] if item.get("sizeGb") else []
    facts += [last(item["machineType"])] if item.get("machineType") else []
    facts += [item[key] for key in ("IPAddress", "address") if item.get(key)]
    facts += [f"used by {last(user)}" for user in item.get("users") or ()]
    return ", ".join(facts)


@dataclass(frozen=True, kw_only=True)
class ApiKind:
    """A kind of things that are a collection of an API.

    Args:
        title: What one is called.
        api: The API, such as `run.v2`.
        collection: The collection by the API's description, such as `projects.locations.services`; of several
            for different scopes (`disks`, `regionDisks`) the one that can list the things of all.
        gcloud: The words that delete one, after `gcloud` and before `--project`; `{name}`, `{location}`,
            `{parent}` and `{scope}` (such as `--zone ZONE`) are filled in.
        type: Type token of those that a program makes.
        name_input: The input by which a program gives one a name that something else may have already.
        everywhere: Whether those of all locations are listed at once.
        inside: The field that holds them in the list of the collection above theirs.
        detail: What else a person wants to know of one.
        empty: What must be done before one can be deleted.
    """

    title: str
    api: str
    collection: str
    gcloud: str
    type: str = ""
    name_input: str = ""
    everywhere: bool = False
    inside: str = ""
    detail: Callable[[Item], str] = _facts
    empty: Callable[[Place, Thing], None] | None = None

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        collection = self.collection.rpartition(".")[0] if self.inside else self.collection
        regional = "locations" in collection and not self.everywhere
        for location in place.regions if regional else ("-",):
            for item in self._items(place, collection, location):
                where = location if regional else item.get("location", "") if self.everywhere else ""
                for each in item.get(self.inside) or () if self.inside else (item,):
                    yield self._thing(each, where, item["name"] if self.inside else "")

    def get(self, place: Place, location: str, name: str) -> Thing:
        """The one of a name.

        Raises:
            CallError: When there is none, or it may not be looked at.
        """
        method = f"{self.collection}.get"
        arguments = self._arguments(method, place, location, name=name)
        return self._thing(place.clients.call(self.api, method, **arguments), location, "")

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        scopes, scope = self._scopes(), _scope(thing.location)
        # Only what exists in several scopes is told by a flag that it is global.
        flag = f"--{scope} {thing.location}" if scope else "--global" if len(scopes) > 1 else ""
        words = self.gcloud.format(
            name=thing.name, location=thing.location, parent=thing.parent, scope=flag
        ).split()
        return " ".join(("gcloud", *words, "--project", place.project))

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        if self.empty:
            self.empty(place, thing)
        scope = _scope(thing.location)
        started = self._call(f"{self._scopes().get(scope, self.collection)}.delete", place, thing, thing.name)
        if started.get("name") and not started.get("done"):
            ask = f"{_OPERATIONS}.get"
            ask = ask if discovery(self.api).method(ask) else f"{scope or 'global'}Operations.get"
            wait(lambda: self._call(ask, place, thing, started["name"]))

    def _items(self, place: Place, collection: str, location: str) -> list[Item]:
        scoped = f"{collection}.aggregatedList"
        method = scoped if discovery(self.api).method(scoped) else f"{collection}.list"
        found = place.clients.every(self.api, method, **self._arguments(method, place, location))
        return found if method != scoped else [item for _, one in found for item in one.get(collection, ())]

    def _call(self, method: str, place: Place, thing: Thing, name: str) -> dict[str, Any]:
        arguments = self._arguments(method, place, thing.location, thing.parent, name)
        return place.clients.call(self.api, method, **arguments)

    def _arguments(
        self, method: str, place: Place, location: str, parent: str = "-", name: str = ""
    ) -> dict[str, str]:
        """The arguments that a method needs; without a name, those of one that lists."""
        *outer, own, _ = method.split(".")
        ids = {"projects": place.project, "locations": location}
        holder = "/".join(f"{each}/{ids.get(each, parent)}" for each in outer)
        path = f"{holder}/{own}/{name}" if name else holder
        values = {"project": place.project, "zone": location, "region": location, "parent": holder}
        values["name"] = name if "/" in name else path
        return {each: values.get(each, name) for each in discovery(self.api).required(method)}

    def _scopes(self) -> Mapping[str, str]:
        """The collection of those in a zone, in a region and in neither: `disks`, `regionDisks`."""
        capital = self.collection[0].upper() + self.collection[1:]
        found = {}
        for name in (self.collection, f"region{capital}", f"global{capital}"):
            if discovery(self.api).method(f"{name}.delete"):
                needed = discovery(self.api).required(f"{name}.delete")
                found[next((scope for scope in ("zone", "region") if scope in needed), "")] = name
        return found

    def _thing(self, item: Item, location: str, parent: str) -> Thing:
        labels = item.get("labels") or item.get("resourceLabels") or {}
        interface = (item.get("networkInterfaces") or [item])[0]
        purpose = item.get("purpose", "")
        of_run = purpose == _RUN_ADDRESS or item.get("name", "").startswith(_RUN_NAME)
        return Thing(
            kind=self,
            name=item.get("email") or last(item.get("name")),
            location=last(item.get("zone") or item.get("region")) or location,
            parent=parent or last(item.get("service")),
            labels=labels,
            network=last(interface.get("network")),
            subnet=last(interface.get("subnetwork")),
            cluster=labels.get(_CLUSTER_LABEL, ""),
            owner=last(item.get("service")),
            detail=self.detail(item),
            keeper="Cloud Run" if of_run else "Cloud NAT" if purpose == _NAT_ADDRESS else "",
        )


def _scope(location: str) -> str:
    """`us-central1-a` is a zone, `us-central1` a region."""
    return "" if not location else "zone" if location.count("-") > 1 else "region"


def _empty_bucket(place: Place, bucket: Thing) -> None:
    for item in place.clients.every("storage.v1", "objects.list", bucket=bucket.name, versions=True):
        version = {"object": item["name"], "generation": item.get("generation")}
        place.clients.call("storage.v1", "objects.delete", bucket=bucket.name, **version)


def _compute(title: str, collection: str, noun: str, type: str = "") -> ApiKind:
    gcloud = f"compute {noun} delete {{name}} {{scope}}"
    return ApiKind(title=title, api="compute.v1", collection=collection, gcloud=gcloud, type=type)


SUBNETS: Final = _compute("subnet", "subnetworks", "networks subnets", "gcp:compute/subnetwork:Subnetwork")
NETWORKS: Final = _compute("network", "networks", "networks", "gcp:compute/network:Network")

# In the order of deletion: nothing is deleted before what uses it.
API_KINDS: Final = (
    ApiKind(
        title="Cloud Run service",
        type=RUN_SERVICE,
        api="run.v2",
        collection="projects.locations.services",
        gcloud="run services delete {name} --region {location}",
    ),
    ApiKind(
        title="Cloud Run job",
        type=RUN_JOB,
        api="run.v2",
        collection="projects.locations.jobs",
        gcloud="run jobs delete {name} --region {location}",
    ),
    ApiKind(
        title="revision",
        api="run.v2",
        collection="projects.locations.services.revisions",
        gcloud="run revisions delete {name} --region {location}",
    ),
    ApiKind(
        title="cluster",
        type=CLUSTER,
        name_input="name",
        api="container.v1",
        collection="projects.locations.clusters",
        gcloud="container clusters delete {name} --location {location}",
        everywhere=True,
        detail=lambda item: f"{item.get('currentNodeCount', 0)} nodes, {item.get('status', '')}",
    ),
    ApiKind(
        title="node pool",
        type=NODE_POOL,
        api="container.v1",
        collection="projects.locations.clusters.nodePools",
        gcloud="container node-pools delete {name} --cluster {parent} --location {location}",
        everywhere=True,
        inside="nodePools",
        detail=lambda item: item.get("status", ""),
    ),
    _compute("forwarding rule", "forwardingRules", "forwarding-rules"),
    _compute("instance", "instances", "instances"),
    _compute("network endpoint group", "networkEndpointGroups", "network-endpoint-groups"),
    _compute("address", "addresses", "addresses"),
    _compute("disk", "disks", "disks"),
    _compute("firewall rule", "firewalls", "firewall-rules", "gcp:compute/firewall:Firewall"),
    _compute("router", "routers", "routers", "gcp:compute/router:Router"),
    SUBNETS,
    NETWORKS,
    ApiKind(
        title="bucket",
        type="gcp:storage/bucket:Bucket",
        name_input="name",
        api="storage.v1",
        collection="buckets",
        gcloud="storage rm --recursive --all-versions gs://{name}",
        empty=_empty_bucket,
    ),
    ApiKind(
        title="image repository",
        type=REPOSITORY,
        name_input="repositoryId",
        api="artifactregistry.v1",
        collection="projects.locations.repositories",
        gcloud="artifacts repositories delete {name} --location {location}",
        detail=lambda item: f"{int(item.get('sizeBytes') or 0) / _GIB:.1f} GiB of images",
    ),
    ApiKind(
        title="secret",
        type="gcp:secretmanager/secret:Secret",
        name_input="secretId",
        api="secretmanager.v1",
        collection="projects.secrets",
        gcloud="secrets delete {name}",
    ),
    ApiKind(
        title="service account",
        type=ACCOUNT,
        api="iam.v1",
        collection="projects.serviceAccounts",
        gcloud="iam service-accounts delete {name}",
        detail=lambda item: item.get("displayName", ""),
    ),
)
