"""Rules of IAM members and project services."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import texts
from rehearsal.schema import Problem

_MEMBERS: Final = (
    r"allUsers|allAuthenticatedUsers",
    r"(user|group|serviceAccount|domain):[^@\s:]*@?[^@\s:]+",
    r"serviceAccount:[a-z0-9-]+\.svc\.id\.goog\[[^/\]]+/[^/\]]+\]",
    r"project(Owner|Editor|Viewer):[a-z0-9-]+",
    r"principal://iam\.googleapis\.com/projects/\d+/locations/global/workloadIdentityPools/[^/]+/subject/\S+",
    r"principalSet://iam\.googleapis\.com/projects/\d+/locations/global/workloadIdentityPools/[^/]+/\S+",
    r"principal://iam\.googleapis\.com/locations/global/workforcePools/[^/]+/subject/\S+",
    r"deleted:\S+",
)
_MEMBER: Final = re.compile("|".join(_MEMBERS))
_ROLE: Final = re.compile(r"(projects/[^/]+/|organizations/\d+/)?roles/[A-Za-z0-9._]+")
_SERVICE: Final = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*\.(googleapis\.com|goog)")


def member(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The form of an IAM member and role, which the provider passes on unchecked.

    https://docs.cloud.google.com/iam/docs/principal-identifiers
    """
    if "member" in inputs and "role" in inputs:
        for text in texts(inputs, "member"):
            if not _MEMBER.fullmatch(text):
                yield (
                    "member",
                    f"{text!r} is not a principal; write user:..., serviceAccount:... or principal://...",
                )
        for text in texts(inputs, "role"):
            if not _ROLE.fullmatch(text):
                yield "role", f"{text!r} is not a role such as roles/storage.objectUser"


def service(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The name of an API."""
    for text in texts(inputs, "service"):
        if not _SERVICE.fullmatch(text):
            yield "service", f"{text!r} is not a service name such as container.googleapis.com"
