"""A project on the local server in which things exist until they are deleted, and hold each other."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from cloud.discovery import Call, discovery
from tests.operations.google_server import NOT_FOUND, GoogleServer

PROJECT: Final = "my-project"
REGION: Final = "us-central1"
ZONE: Final = "us-central1-a"

_COMPUTE: Final = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"

Item = dict[str, Any]


class Project:
    """What exists in the project, by the collection that an API has it in, such as `disks`.

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
        server.otherwise = self._answer

    def add(self, collection: str, name: str, **fields: Any) -> None:
        """Lets something exist; `network` is a name, `zone` and `region` too."""
        if "network" in fields:
            fields["network"] = f"{_COMPUTE}/global/networks/{fields['network']}"
        if "subnetwork" in fields:
            fields["subnetwork"] = f"{_COMPUTE}/regions/{REGION}/subnetworks/{fields['subnetwork']}"
        for place in ("zone", "region"):
            if place in fields:
                fields[place] = f"{_COMPUTE}/{place}s/{fields[place]}"
        self._things[collection].append({"name": name, **fields})

    def names(self) -> set[str]:
        """Names of everything that exists."""
        return {_name(item) for items in self._things.values() for item in items}

    def _answer(self, api: str, call: Call, body: Any) -> Item:
        *_, collection, verb = call.method.split(".")
        if call.method == "cloudresourcemanager.projects.getIamPolicy":
            # Or conditions would be lost when the policy is written.
            assert body["options"]["requestedPolicyVersion"] == 3
            bindings = [{"role": role, "members": members} for role, members in self.policy.items()]
            return {"version": 3, "etag": "BwYAAAAAAAA=", "bindings": bindings}
        if call.method == "cloudresourcemanager.projects.setIamPolicy":
            assert body["policy"]["etag"] == "BwYAAAAAAAA="
            self.policy = {each["role"]: each["members"] for each in body["policy"]["bindings"]}
            return body["policy"]
        if collection.lower().endswith("operations"):
            return self._operations[[*call.address.values()][-1]]
        if verb == "aggregatedList":
            return self._scopes(collection)
        if verb == "list":
            field = discovery(api).listed(call.method.partition(".")[2])
            return {field: self._within(collection, call.address)}
        if verb == "delete":
            return self._delete(api, collection, call)
        raise NOT_FOUND

    def _within(self, collection: str, address: Mapping[str, str]) -> list[Item]:
        """The things of a collection in the location, or in the bucket, that a list is asked of."""
        if collection == "objects":
            collection = f"objects/{address['bucket']}"
        place = address.get("locationsId", "-")
        found = [each for each in self._things[collection] if place == "-" or f"/{place}/" in each["name"]]
        return [{**each, "generation": "1"} for each in found] if "objects" in collection else found

    def _scopes(self, collection: str) -> Item:
        scopes: defaultdict[str, Item] = defaultdict(lambda: defaultdict(list))
        for item in self._things[collection]:
            place = item.get("zone") or item.get("region") or "global"
            scopes["/".join(place.split("/")[-2:])][collection].append(item)
        empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results"}}
        return {"items": {"regions/europe-west4": empty, **scopes}}

    def _delete(self, api: str, collection: str, call: Call) -> Item:
        name = [*call.address.values()][-1]
        own = collection.removeprefix("region").removeprefix("global")
        own = f"objects/{call.address['bucket']}" if own == "objects" else own[0].lower() + own[1:]
        item = next((each for each in self._things[own] if name in (each["name"], _name(each))), None)
        if item is None:
            raise NOT_FOUND
        holder = self._holder(own, name)
        if not holder:
            self._things[own].remove(item)
            if own[:7] != "objects":
                self.deleted.append(name)
        return self._started(api, call, name, holder)

    def _started(self, api: str, call: Call, name: str, holder: str) -> Item:
        """What a deletion answers: an operation, which fails while something holds the thing, or nothing."""
        answered = discovery(api).methods[call.method].get("response", {}).get("$ref", "")
        fields = discovery(api).document["schemas"].get(answered, {}).get("properties", {})
        if "done" in fields:
            return {"name": f"projects/{PROJECT}/locations/{REGION}/operations/{name}", "done": True}
        if "status" not in fields:
            return {}
        ended: Item = {"name": f"delete-{name}", "status": "DONE"}
        if holder:
            error = {"code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "message": f"{name} is used by {holder}"}
            ended["error"] = {"errors": [error]}
        self._operations[f"delete-{name}"] = ended
        return {"name": f"delete-{name}", "status": "RUNNING"}

    def _holder(self, collection: str, name: str) -> str:
        """What uses it, as the platform sees it."""
        field = {"networks": "network", "subnetworks": "subnetwork"}.get(collection)
        everything = [each for items in self._things.values() for each in items]
        users = (_name(each) for each in everything if field and each.get(field, "").endswith(f"/{name}"))
        return next(users, "")


def _name(item: Item) -> str:
    return item.get("email") or item["name"].rpartition("/")[2]
