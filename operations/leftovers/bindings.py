"""Role bindings of service accounts that are gone, on what outlives the stack."""

from collections.abc import Iterator
from typing import Any, Final

from operations.clients import Clients
from operations.errors import CallError
from operations.leftovers.footprint import Footprint, Thing

_ACCOUNT: Final = "serviceAccount:"
# How a policy shows a member that has been deleted: deleted:serviceAccount:ADDRESS?uid=NUMBER.
_DELETED: Final = "deleted:"
# Policies with conditions are shown whole in this version only.
_POLICY_VERSION: Final = 3


class Bindings:
    """Roles of service accounts on the project, and on repositories of others; see `ListedKind`."""

    title = "role binding"
    type = ""

    def find(self, clients: Clients, wanted: Footprint) -> Iterator[Thing]:
        """All that there are."""
        for resource in (f"projects/{wanted.project}", *wanted.repositories):
            try:
                policy = _read(clients, resource)
            except CallError as error:
                # The repository may have been deleted since; its bindings went with it.
                if resource in wanted.repositories and error.missing:
                    continue
                raise
            for binding in policy.get("bindings") or ():
                for member in binding.get("members") or ():
                    if owner := _account(member):
                        yield Thing(
                            type="", name=binding["role"], parent=resource, owner=owner, detail=member
                        )

    def command(self, thing: Thing, project: str) -> str:
        """The gcloud command that deletes one."""
        what = f"--member '{thing.detail}' --role {thing.name}"
        if "/repositories/" not in thing.parent:
            return f"gcloud projects remove-iam-policy-binding {project} {what} --all"
        _, project, _, location, _, repository = thing.parent.split("/")
        verb = f"gcloud artifacts repositories remove-iam-policy-binding {repository}"
        return f"{verb} --location {location} --project {project} {what}"

    def delete(self, clients: Clients, thing: Thing, _project: str) -> None:
        """Deletes one; the policy's etag rejects the write when somebody else wrote in between."""
        policy = _read(clients, thing.parent)
        for binding in policy.get("bindings") or ():
            if binding["role"] == thing.name:
                binding["members"] = [each for each in binding["members"] if each != thing.detail]
        policy["bindings"] = [each for each in policy.get("bindings") or () if each["members"]]
        _call(clients, "setIamPolicy", thing.parent, body={"policy": policy})


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
    """Address of a service account, empty for any other member."""
    name = member.removeprefix(_DELETED)
    return name.removeprefix(_ACCOUNT).partition("?")[0] if name.startswith(_ACCOUNT) else ""
