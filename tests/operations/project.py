"""A project on the local server in which things exist until they are deleted, and hold each other."""

from collections import defaultdict
from typing import Any, Final

from cloud.discovery import Call
from tests.operations.google_server import NOT_FOUND, Fault, GoogleServer

PROJECT: Final = "my-project"
REGION: Final = "us-central1"
ZONE: Final = "us-central1-a"

_COMPUTE: Final = "compute.v1"
# Collection, the other collections that delete its things, and what the API calls one.
_SCOPED: Final = {
    "forwardingRules": ("globalForwardingRules", "forwardingRule"),
    "instances": ("", "instance"),
    "networkEndpointGroups": ("globalNetworkEndpointGroups", "networkEndpointGroup"),
    "addresses": ("globalAddresses", "address"),
    "disks": ("regionDisks", "disk"),
    "routers": ("", "router"),
    "subnetworks": ("", "subnetwork"),
}
_GLOBAL: Final = {"firewalls": "firewall", "networks": "network"}

Item = dict[str, Any]


class Project:
    """What exists in the project.

    Args:
        server: Answers for it.

    Attributes:
        deleted: Names in the order in which they were deleted.
        policy: The project's access list: role to members.
    """

    def __init__(self, server: GoogleServer) -> None:
        self.deleted: list[str] = []
        self.policy: dict[str, list[str]] = {}
        self._things: defaultdict[str, list[Item]] = defaultdict(list)
        self._operations: dict[str, Item] = {}
        self._server = server
        self._plant_compute()
        self._plant_run()
        self._plant_rest()

    def add(self, collection: str, name: str, **fields: Any) -> None:
        """Lets something exist; `network` is a name, `zone` and `region` too."""
        root = "https://www.googleapis.com/compute/v1/projects/my-project"
        if "network" in fields:
            fields["network"] = f"{root}/global/networks/{fields['network']}"
        if "subnetwork" in fields:
            fields["subnetwork"] = f"{root}/regions/{REGION}/subnetworks/{fields['subnetwork']}"
        for place in ("zone", "region"):
            if place in fields:
                fields[place] = f"{root}/{place}s/{fields[place]}"
        self._things[collection].append({"name": name, **fields})

    def names(self) -> set[str]:
        """Names of everything that exists."""
        return {_name(item) for items in self._things.values() for item in items}

    def _list(self, collection: str, key: str, within: str = "") -> Any:
        def answer(call: Call, _body: Any) -> Item:
            place = call.address.get("locationsId", "")
            found = self._things[collection]
            return {key: [each for each in found if not within or f"/{within}/{place}/" in each["name"]]}

        return answer

    def _delete(self, collection: str, parameter: str, operation: Any = None) -> Any:
        def answer(call: Call, _body: Any) -> Item:
            name = call.address[parameter]
            item = next((each for each in self._things[collection] if _name(each) == name), None)
            if item is None:
                raise NOT_FOUND
            holder = self._holder(collection, name)
            if not holder:
                self._things[collection].remove(item)
                self.deleted.append(name)
            elif operation is None:
                raise Fault(code=400, status="FAILED_PRECONDITION", message=f"{name} is used by {holder}")
            return operation(name, holder) if operation else {}

        return answer

    def _holder(self, collection: str, name: str) -> str:
        """What uses it, as the platform sees it."""
        field = {"networks": "network", "subnetworks": "subnetwork"}.get(collection)
        everything = [each for items in self._things.values() for each in items]
        users = (_name(each) for each in everything if field and each.get(field, "").endswith(f"/{name}"))
        return next(users, "")

    def _plant_compute(self) -> None:
        def scoped(collection: str) -> Any:
            def answer(_call: Call, _body: Any) -> Item:
                scopes: defaultdict[str, Item] = defaultdict(lambda: defaultdict(list))
                for item in self._things[collection]:
                    place = item.get("zone") or item.get("region") or "global"
                    scopes["/".join(place.split("/")[-2:])][collection].append(item)
                empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results"}}
                return {"items": {"regions/europe-west4": empty, **scopes}}

            return answer

        def operation(name: str, holder: str) -> Item:
            self._operations[f"delete-{name}"] = _compute_operation(name, holder)
            return {"name": f"delete-{name}", "status": "RUNNING"}

        for collection, (elsewhere, parameter) in _SCOPED.items():
            self._server.plant(_COMPUTE, f"compute.{collection}.aggregatedList", scoped(collection))
            for each in filter(None, (collection, elsewhere)):
                delete = self._delete(collection, parameter, operation)
                self._server.plant(_COMPUTE, f"compute.{each}.delete", delete)
        for collection, parameter in _GLOBAL.items():
            listing, delete = self._list(collection, "items"), self._delete(collection, parameter, operation)
            self._server.plant(_COMPUTE, f"compute.{collection}.list", listing)
            self._server.plant(_COMPUTE, f"compute.{collection}.delete", delete)
        for scope in ("zone", "region", "global"):
            self._server.plant(
                _COMPUTE,
                f"compute.{scope}Operations.get",
                lambda call, _body: self._operations[call.address["operation"]],
            )

    def _plant_run(self) -> None:
        def done(name: str, _holder: str) -> Item:
            return {"name": f"projects/{PROJECT}/locations/{REGION}/operations/{name}", "done": True}

        run = "run.projects.locations"
        for collection, parameter in (("services", "servicesId"), ("jobs", "jobsId")):
            listing = self._list(f"run/{collection}", collection, within="locations")
            self._server.plant("run.v2", f"{run}.{collection}.list", listing)
            delete = self._delete(f"run/{collection}", parameter, done)
            self._server.plant("run.v2", f"{run}.{collection}.delete", delete)
        revisions = self._list("run/revisions", "revisions", within="locations")
        self._server.plant("run.v2", f"{run}.services.revisions.list", revisions)
        delete = self._delete("run/revisions", "revisionsId", done)
        self._server.plant("run.v2", f"{run}.services.revisions.delete", delete)

    def _plant_rest(self) -> None:
        plant = self._server.plant
        clusters = "container.projects.locations.clusters"
        plant("container.v1", f"{clusters}.list", self._list("clusters", "clusters"))
        container = self._delete("clusters", "clustersId", lambda name, _: {"name": f"delete-{name}"})
        plant("container.v1", f"{clusters}.delete", container)
        plant("container.v1", f"{clusters}.nodePools.delete", {"name": "delete-pool"})
        plant("container.v1", "container.projects.locations.operations.get", {"status": "DONE"})
        plant("storage.v1", "storage.buckets.list", self._list("buckets", "items"))
        plant("storage.v1", "storage.objects.list", lambda call, _: self._objects(call))
        plant("storage.v1", "storage.objects.delete", lambda call, _: self._remove_object(call))
        plant("storage.v1", "storage.buckets.delete", self._delete("buckets", "bucket"))
        repositories = "artifactregistry.projects.locations.repositories"
        listing = self._list("repositories", "repositories", within="locations")
        plant("artifactregistry.v1", f"{repositories}.list", listing)
        done = self._delete("repositories", "repositoriesId", lambda name, _: {"name": name, "done": True})
        plant("artifactregistry.v1", f"{repositories}.delete", done)
        plant("secretmanager.v1", "secretmanager.projects.secrets.list", self._list("secrets", "secrets"))
        delete = self._delete("secrets", "secretsId")
        plant("secretmanager.v1", "secretmanager.projects.secrets.delete", delete)
        plant("iam.v1", "iam.projects.serviceAccounts.list", self._list("accounts", "accounts"))
        delete = self._delete("accounts", "serviceAccountsId")
        plant("iam.v1", "iam.projects.serviceAccounts.delete", delete)
        plant("cloudresourcemanager.v1", "cloudresourcemanager.projects.getIamPolicy", self._get_policy)
        plant("cloudresourcemanager.v1", "cloudresourcemanager.projects.setIamPolicy", self._set_policy)

    def _objects(self, call: Call) -> Item:
        found = self._things[f"objects/{call.address['bucket']}"]
        return {"items": [{**each, "generation": "1"} for each in found]}

    def _remove_object(self, call: Call) -> Item:
        found = self._things[f"objects/{call.address['bucket']}"]
        found[:] = [each for each in found if each["name"] != call.address["object"]]
        return {}

    def _get_policy(self, _call: Call, body: Item) -> Item:
        assert body["options"]["requestedPolicyVersion"] == 3  # or conditions would be lost when written
        bindings = [{"role": role, "members": members} for role, members in self.policy.items()]
        return {"version": 3, "etag": "BwYAAAAAAAA=", "bindings": bindings}

    def _set_policy(self, _call: Call, body: Item) -> Item:
        assert body["policy"]["etag"] == "BwYAAAAAAAA="
        self.policy = {each["role"]: each["members"] for each in body["policy"]["bindings"]}
        return body["policy"]


def _name(item: Item) -> str:
    return item.get("email") or item["name"].rpartition("/")[2]


def _compute_operation(name: str, holder: str) -> Item:
    if not holder:
        return {"name": f"delete-{name}", "status": "DONE"}
    error = {"code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "message": f"{name} is used by {holder}"}
    return {"name": f"delete-{name}", "status": "DONE", "error": {"errors": [error]}}
