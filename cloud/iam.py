"""Identity and Access Management: who has which role on what."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cloud.container import CLUSTER
from cloud.inputs import texts
from cloud.record import EVERY_INPUT, Existing, Inputs, Problem, Record, verbs
from cloud.serviceaccount import ACCOUNT, ADMIN, IAM_API

# Whoever starts something that runs as a service account must be allowed to act as it.
ACT_AS: Final = {"iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser"}

_MEMBERS: Final = (
    r"allUsers|allAuthenticatedUsers",
    r"(user|group|serviceAccount):[^@\s:]+@[^@\s:]+",
    r"domain:[^@\s:]+\.[^@\s:]+",
    r"serviceAccount:[a-z0-9-]+\.svc\.id\.goog\[[^/\]]+/[^/\]]+\]",
    r"project(Owner|Editor|Viewer):[a-z0-9-]+",
    r"principal://iam\.googleapis\.com/projects/\d+/locations/global/workloadIdentityPools/[^/]+/subject/\S+",
    r"principalSet://iam\.googleapis\.com/projects/\d+/locations/global/workloadIdentityPools/[^/]+/\S+",
    r"principal(Set)?://iam\.googleapis\.com/locations/global/workforcePools/[^/]+/\S+",
    r"deleted:\S+",
)
# https://docs.cloud.google.com/iam/docs/principal-identifiers
MEMBER: Final = re.compile("|".join(_MEMBERS))
_ROLE: Final = re.compile(r"(projects/[^/]+/|organizations/\d+/)?roles/[A-Za-z0-9._]+")


def member_of(
    type: str, of: str, *, api: str, permissions: str, role: str, references: Mapping[str, str] | None = None
) -> Record:
    """The record of an IAM member: one role of one principal on one resource.

    Args:
        of: Template of the resource's path, with which the member's id begins.
        permissions: The resource in the names of permissions, such as `storage.buckets`.
        role: The role that may read and write its policy.
    """
    return Record(
        type=type,
        api=api,
        id=of + "/{role}/{member}",
        replaced_by=EVERY_INPUT,
        references=references or {},
        rules=(_principal,),
        admission=(_known,),
        permissions=verbs(permissions, "getIamPolicy", "setIamPolicy"),
        role=role,
    )


def _principal(inputs: Inputs) -> Iterator[Problem]:
    """The form of a principal and of a role, which the provider passes on unchecked."""
    for text in texts(inputs, "member"):
        if not MEMBER.fullmatch(text):
            reason = f"{text!r} is not a principal; write user:..., serviceAccount:... or principal://..."
            yield "member", reason
    for text in texts(inputs, "role"):
        if not _ROLE.fullmatch(text):
            yield "role", f"{text!r} is not a role such as roles/storage.objectUser"


def _known(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """A service account must exist, and a workload pool comes with its first cluster.

    The pool: terraform-google-modules/terraform-google-kubernetes-engine issue 916.
    """
    for member in texts(inputs, "member"):
        email = member.removeprefix("serviceAccount:")
        # Google's own service agents are named `service-NUMBER@...` or have domains of their own.
        made = email.endswith(".iam.gserviceaccount.com") and not email.startswith("service-")
        if email != member and made and existing.named(ACCOUNT.type, email) is None:
            yield f"service account {email} does not exist"
        # On Autopilot service accounts of a cluster are always known to IAM.
        known = ("enableAutopilot", "workloadIdentityConfig")
        clusters = [cluster.inputs for cluster in existing.of_type(CLUSTER.type)]
        if ".svc.id.goog" in member and not any(inputs.get(key) for inputs in clusters for key in known):
            yield "identity pool does not exist: it comes with the project's first cluster"


_PROJECT_MEMBER: Final = member_of(
    "gcp:projects/iAMMember:IAMMember",
    "{project}",
    api="cloudresourcemanager.googleapis.com",
    permissions="resourcemanager.projects",
    role="roles/resourcemanager.projectIamAdmin",
)

_ACCOUNT_MEMBER: Final = member_of(
    "gcp:serviceaccount/iAMMember:IAMMember",
    "{serviceAccountId}",
    api=IAM_API,
    permissions="iam.serviceAccounts",
    role=ADMIN,
    references={"serviceAccountId": ACCOUNT.type},
)
