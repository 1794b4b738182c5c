"""Kinds of things of the other services: clusters, Cloud Run, buckets, images, secrets, accounts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from operations.leftovers.thing import Place, Thing, Wait, last

CLUSTER: Final = "gcp:container/cluster:Cluster"
NODE_POOL: Final = "gcp:container/nodePool:NodePool"
BUCKET: Final = "gcp:storage/bucket:Bucket"
REPOSITORY: Final = "gcp:artifactregistry/repository:Repository"
SECRET: Final = "gcp:secretmanager/secret:Secret"
ACCOUNT: Final = "gcp:serviceaccount/account:Account"
RUN_JOB: Final = "gcp:cloudrunv2/job:Job"
RUN_SERVICE: Final = "gcp:cloudrunv2/service:Service"

_GIBIBYTE: Final = 1024**3


@dataclass(frozen=True)
class Clusters:
    """GKE clusters; their nodes go with them."""

    title = "cluster"
    type = CLUSTER

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        for cluster in _clusters(place):
            yield Thing(
                kind=self,
                name=cluster["name"],
                location=cluster["location"],
                labels=cluster.get("resourceLabels") or {},
                network=last(cluster.get("network")),
                detail=f"{cluster.get('currentNodeCount', 0)} nodes, {cluster.get('status', '')}",
            )

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        at = f"--location {thing.location} --project {place.project}"
        return f"gcloud container clusters delete {thing.name} {at}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        name = f"projects/{place.project}/locations/{thing.location}/clusters/{thing.name}"
        clusters = place.clients.api("container.v1").projects().locations().clusters()
        _delete_in_cluster_api(place, clusters.delete(name=name), thing, wait)


@dataclass(frozen=True)
class NodePools:
    """Node pools; one that found no machines may exist without being in the state."""

    title = "node pool"
    type = NODE_POOL

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        for cluster in _clusters(place):
            for pool in cluster.get("nodePools") or ():
                yield Thing(
                    kind=self,
                    name=pool["name"],
                    location=cluster["location"],
                    parent=cluster["name"],
                    detail=pool.get("status", ""),
                )

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        at = f"--cluster {thing.parent} --location {thing.location} --project {place.project}"
        return f"gcloud container node-pools delete {thing.name} {at}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        cluster = f"projects/{place.project}/locations/{thing.location}/clusters/{thing.parent}"
        pools = place.clients.api("container.v1").projects().locations().clusters().nodePools()
        _delete_in_cluster_api(place, pools.delete(name=f"{cluster}/nodePools/{thing.name}"), thing, wait)


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """Jobs or services of Cloud Run.

    Args:
        title: What one is called.
        type: Type token of the program's own ones.
        collection: `jobs` or `services`.
    """

    title: str
    type: str
    collection: str

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        collection = getattr(place.clients.api("run.v2").projects().locations(), self.collection)()
        for region in place.regions:
            parent = f"projects/{place.project}/locations/{region}"
            for item in place.clients.every(collection, self.collection, parent=parent):
                name = last(item["name"])
                yield Thing(kind=self, name=name, location=region, labels=item.get("labels") or {})

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        at = f"--region {thing.location} --project {place.project}"
        return f"gcloud run {self.collection} delete {thing.name} {at}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        locations = place.clients.api("run.v2").projects().locations()
        name = f"projects/{place.project}/locations/{thing.location}/{self.collection}/{thing.name}"
        started = place.clients.call(getattr(locations, self.collection)().delete(name=name))
        _wait_for(place, locations.operations(), started, wait)


@dataclass(frozen=True)
class Revisions:
    """Revisions of Cloud Run services that are gone."""

    title = "revision"
    type = ""

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        services = place.clients.api("run.v2").projects().locations().services()
        for region in place.regions:
            parent = f"projects/{place.project}/locations/{region}"
            there = {last(item["name"]) for item in place.clients.every(services, "services", parent=parent)}
            every = place.clients.every(services.revisions(), "revisions", parent=f"{parent}/services/-")
            for item in every:
                if last(item.get("service")) not in there:
                    yield Thing(
                        kind=self, name=last(item["name"]), location=region, owner=last(item.get("service"))
                    )

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        at = f"--region {thing.location} --project {place.project}"
        return f"gcloud run revisions delete {thing.name} {at}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        locations = place.clients.api("run.v2").projects().locations()
        service = f"projects/{place.project}/locations/{thing.location}/services/{thing.owner}"
        name = f"{service}/revisions/{thing.name}"
        started = place.clients.call(locations.services().revisions().delete(name=name))
        _wait_for(place, locations.operations(), started, wait)


@dataclass(frozen=True)
class Buckets:
    """Buckets, with all that is in them."""

    title = "bucket"
    type = BUCKET

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        buckets = place.clients.api("storage.v1").buckets()
        for item in place.clients.every(buckets, "items", project=place.project):
            # The command has no place for a location, and needs none.
            yield Thing(kind=self, name=item["name"], labels=item.get("labels") or {})

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        return f"gcloud storage rm --recursive --all-versions gs://{thing.name} --project {place.project}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        api = place.clients.api("storage.v1")
        inside = place.clients.every(api.objects(), "items", bucket=thing.name, versions=True)
        for item in inside:
            place.clients.call(
                api.objects().delete(
                    bucket=thing.name, object=item["name"], generation=item.get("generation")
                )
            )
        place.clients.call(api.buckets().delete(bucket=thing.name))


@dataclass(frozen=True)
class Repositories:
    """Repositories of images, with the images."""

    title = "image repository"
    type = REPOSITORY

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        repositories = place.clients.api("artifactregistry.v1").projects().locations().repositories()
        for region in place.regions:
            parent = f"projects/{place.project}/locations/{region}"
            for item in place.clients.every(repositories, "repositories", parent=parent):
                size = int(item.get("sizeBytes") or 0) / _GIBIBYTE
                yield Thing(
                    kind=self,
                    name=last(item["name"]),
                    location=region,
                    labels=item.get("labels") or {},
                    detail=f"{size:.1f} GiB of images",
                )

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        at = f"--location {thing.location} --project {place.project}"
        return f"gcloud artifacts repositories delete {thing.name} {at}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        locations = place.clients.api("artifactregistry.v1").projects().locations()
        name = f"projects/{place.project}/locations/{thing.location}/repositories/{thing.name}"
        started = place.clients.call(locations.repositories().delete(name=name))
        _wait_for(place, locations.operations(), started, wait)


@dataclass(frozen=True)
class Secrets:
    """Secrets, with all their versions."""

    title = "secret"
    type = SECRET

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        secrets = place.clients.api("secretmanager.v1").projects().secrets()
        for item in place.clients.every(secrets, "secrets", parent=f"projects/{place.project}"):
            yield Thing(kind=self, name=last(item["name"]), labels=item.get("labels") or {})

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        return f"gcloud secrets delete {thing.name} --project {place.project}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        secrets = place.clients.api("secretmanager.v1").projects().secrets()
        place.clients.call(secrets.delete(name=f"projects/{place.project}/secrets/{thing.name}"))


@dataclass(frozen=True)
class Accounts:
    """Service accounts."""

    title = "service account"
    type = ACCOUNT

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        accounts = place.clients.api("iam.v1").projects().serviceAccounts()
        for item in place.clients.every(accounts, "accounts", name=f"projects/{place.project}"):
            yield Thing(kind=self, name=item["email"], detail=item.get("displayName", ""))

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        return f"gcloud iam service-accounts delete {thing.name} --project {place.project}"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`."""
        accounts = place.clients.api("iam.v1").projects().serviceAccounts()
        place.clients.call(accounts.delete(name=f"projects/{place.project}/serviceAccounts/{thing.name}"))


def _clusters(place: Place) -> list[dict[str, Any]]:
    clusters = place.clients.api("container.v1").projects().locations().clusters()
    # All at once: the answer has no pages.
    answer = place.clients.call(clusters.list(parent=f"projects/{place.project}/locations/-"))
    return answer.get("clusters", [])


def _delete_in_cluster_api(place: Place, request: Any, thing: Thing, wait: Wait) -> None:
    started = place.clients.call(request)
    operations = place.clients.api("container.v1").projects().locations().operations()
    where = f"projects/{place.project}/locations/{thing.location}"
    wait(lambda: place.clients.call(operations.get(name=f"{where}/operations/{started.get('name')}")))


def _wait_for(place: Place, operations: Any, started: Mapping[str, Any], wait: Wait) -> None:
    """Waits for a long-running operation, which may be done already."""
    if not started.get("done"):
        wait(lambda: place.clients.call(operations.get(name=str(started.get("name")))))
