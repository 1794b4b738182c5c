"""A project on the local server in which things exist until they are deleted, and hold each other."""

from collections import defaultdict
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
        shared: That of a repository of another project; there is none while it is empty.
    """

    def __init__(self, server: GoogleServer) -> None:
        self.deleted: list[str] = []
        self.policy: dict[str, list[str]] = {}
        self.shared: dict[str, list[str]] = {}
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
        if verb.endswith("IamPolicy"):
            return self._policy(verb, self.policy if collection == "projects" else self.shared, call, body)
        name = next(reversed([*call.address.values()]), "")
        if collection.lower().endswith("operations"):
            return self._operations[name]
        if collection == "objects":
            collection = f"objects/{call.address['bucket']}"
        if verb == "delete":
            return self._delete(api, collection, call.method, name)
        if verb not in ("list", "aggregatedList"):
            raise NOT_FOUND
        place = call.address.get("locationsId", "-")
        found = [each for each in self._things[collection] if place == "-" or f"/{place}/" in each["name"]]
        if verb == "list":
            return {discovery(api).listed(call.method.partition(".")[2]): found}
        empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results"}}
        scopes: Item = {"regions/europe-west4": empty}
        for item in found:
            scope = "/".join((item.get("zone") or item.get("region") or "global").split("/")[-2:])
            scopes.setdefault(scope, {collection: []})[collection].append(item)
        return {"items": scopes}

    def _policy(self, verb: str, policy: dict[str, list[str]], call: Call, body: Any) -> Item:
        if policy is self.shared and not policy:
            raise NOT_FOUND
        if verb == "getIamPolicy":
            # Or conditions would be lost when the policy is written.
            asked = (
                call.query.get("options.requestedPolicyVersion") or body["options"]["requestedPolicyVersion"]
            )
            assert int(asked) == 3
        else:
            assert body["policy"]["etag"] == "BwYAAAAAAAA="
            policy.clear()
            policy.update({each["role"]: each["members"] for each in body["policy"]["bindings"]})
        bindings = [{"role": role, "members": members} for role, members in policy.items()]
        return {"version": 3, "etag": "BwYAAAAAAAA=", "bindings": bindings}

    def _delete(self, api: str, collection: str, method: str, name: str) -> Item:
        """An operation, which fails while something holds the thing, or nothing."""
        own = collection.removeprefix("region").removeprefix("global")
        own = own[0].lower() + own[1:]
        item = next((each for each in self._things[own] if name in (each["name"], _name(each))), None)
        if item is None:
            raise NOT_FOUND
        # What uses it, as the platform sees it.
        field = {"networks": "network", "subnetworks": "subnetwork"}.get(own, "")
        everything = [each for items in self._things.values() for each in items]
        users = (_name(each) for each in everything if each.get(field, "").endswith(f"/{name}"))
        holder = next(users, "")
        if not holder:
            self._things[own].remove(item)
            self.deleted += [name] if own[:7] != "objects" else []
        answered = discovery(api).methods[method].get("response", {}).get("$ref", "")
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


def _name(item: Item) -> str:
    return item.get("email") or item["name"].rpartition("/")[2]
