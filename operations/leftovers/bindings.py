"""Role bindings of service accounts that are gone, on what outlives the stack."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from operations.errors import CallError
from operations.leftovers.thing import Place, Thing, Wait, last

_ACCOUNT: Final = "serviceAccount:"
# How a policy shows a member that has been deleted: deleted:serviceAccount:ADDRESS?uid=NUMBER.
_DELETED: Final = "deleted:"
# Policies with conditions are shown whole in this version only.
_POLICY_VERSION: Final = 3


@dataclass(frozen=True)
class Bindings:
    """Roles of service accounts on the project, and on repositories of others."""

    title = "role binding"
    type = ""

    def find(self, place: Place) -> Iterator[Thing]:
        """See `Kind.find`."""
        for resource in ("", *place.repositories):
            try:
                policy = _read(place, resource)
            except CallError as error:
                # The repository may have been deleted since; its bindings went with it.
                if resource and error.missing:
                    continue
                raise
            for binding in policy.get("bindings") or ():
                for member in binding.get("members") or ():
                    if _account(member):
                        yield Thing(
                            kind=self,
                            name=binding["role"],
                            parent=resource,
                            owner=_account(member),
                            detail=member,
                        )

    def command(self, place: Place, thing: Thing) -> str:
        """See `Kind.command`."""
        what = f"--member '{thing.detail}' --role {thing.name}"
        if thing.parent:
            _, project, _, location, _, _ = thing.parent.split("/")
            at = f"--location {location} --project {project}"
            verb = f"gcloud artifacts repositories remove-iam-policy-binding {last(thing.parent)} {at}"
            return f"{verb} {what}"
        return f"gcloud projects remove-iam-policy-binding {place.project} {what} --all"

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """See `Kind.delete`. The policy's etag refuses the write when somebody else wrote in between."""
        policy = _read(place, thing.parent)
        for binding in policy.get("bindings") or ():
            if binding["role"] == thing.name:
                binding["members"] = [each for each in binding["members"] if each != thing.detail]
        policy["bindings"] = [each for each in policy.get("bindings") or () if each["members"]]
        api, collection, resource = _holder(place, thing.parent)
        place.clients.call(api, f"{collection}.setIamPolicy", resource=resource, body={"policy": policy})


def _read(place: Place, repository: str) -> dict[str, Any]:
    api, collection, resource = _holder(place, repository)
    version: dict[str, Any] = {"body": {"options": {"requestedPolicyVersion": _POLICY_VERSION}}}
    if repository:
        version = {"options_requestedPolicyVersion": _POLICY_VERSION}
    return place.clients.call(api, f"{collection}.getIamPolicy", resource=resource, **version)


def _holder(place: Place, repository: str) -> tuple[str, str, str]:
    """API, collection and name of what has the policy: a repository or the project."""
    if repository:
        return "artifactregistry.v1", "projects.locations.repositories", repository
    return "cloudresourcemanager.v1", "projects", place.project


def _account(member: str) -> str:
    """Address of a service account, empty for any other member."""
    name = member.removeprefix(_DELETED)
    return name.removeprefix(_ACCOUNT).partition("?")[0] if name.startswith(_ACCOUNT) else ""
