"""A project on the local server in which things exist."""

from collections import defaultdict
from typing import Any, Final

from cloud.discovery import Call, discovery
from cloud.record import PROJECT_NUMBER
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
        policy: The project's access list: role to members.
        shared: The policy of a repository in another project. While it is empty there is no such repository.
    """

    def __init__(self, server: GoogleServer) -> None:
        self.policy: dict[str, list[str]] = {}
        self.shared: dict[str, list[str]] = {}
        self._things: defaultdict[str, list[Item]] = defaultdict(list)
        server.otherwise = self._answer

    def add(self, collection: str, name: str, **fields: Any) -> None:
        """Lets a resource exist. `network`, `zone` and `region` are names."""
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
            return self._policy(self.policy if collection == "projects" else self.shared, call, body)
        if collection == "projects" and verb == "get":
            return {"name": f"projects/{PROJECT_NUMBER}", "projectId": PROJECT}
        if verb not in ("list", "aggregatedList"):
            raise NOT_FOUND
        place = call.address.get("locationsId", "-")
        items = [item for item in self._things[collection] if place == "-" or f"/{place}/" in item["name"]]
        if verb == "list":
            return {discovery(api).listed(call.method.partition(".")[2]): items}
        empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results"}}
        scopes: Item = {"regions/europe-west4": empty}
        for item in items:
            scope = "/".join((item.get("zone") or item.get("region") or "global").split("/")[-2:])
            scopes.setdefault(scope, {collection: []})[collection].append(item)
        return {"items": scopes}

    def _policy(self, policy: dict[str, list[str]], call: Call, body: Any) -> Item:
        if policy is self.shared and not policy:
            raise NOT_FOUND
        # Policies with conditions are shown whole in this version only.
        asked = call.query.get("options.requestedPolicyVersion") or body["options"]["requestedPolicyVersion"]
        assert int(asked) == 3
        bindings = [{"role": role, "members": members} for role, members in policy.items()]
        return {"version": 3, "etag": "BwYAAAAAAAA=", "bindings": bindings}


def _name(item: Item) -> str:
    return item.get("email") or item["name"].rpartition("/")[2]
