"""Identity and Access Management: which principal has which role on which resource."""

import re
from collections.abc import Iterator
from typing import Final

from cloud.inputs import texts
from cloud.record import EVERY_INPUT, Existing, Inputs, Problem, Record, verbs
from cloud.services.container import CLUSTER
from cloud.services.serviceaccount import ACCOUNT

# To start something that runs as a service account you must be allowed to act as that account.
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


def member_of(of: Record, type: str, path: str, named_by: str = "", *, deletes_first: bool = False) -> Record:
    """The record of an IAM member: one role of one principal on one resource.

    Args:
        of: The record of the resource. The prefix of its first permission is the prefix of the member's.
        path: Template of the resource's path, with which the member's id begins.
        named_by: The input that names the resource. Empty if it may be a resource outside the stack.
        deletes_first: As of `Record`.
    """
    return Record(
        type=type,
        api=of.api,
        # A condition is part of the id (google-beta/tpgiamresource, `conditionKey`).
        id=path + "/{role}/{member}{condition_key}",
        replaced_by=EVERY_INPUT,
        deletes_first=deletes_first,
        # `resourceIamMemberCreate` merges the member into the policy (google-beta/tpgiamresource).
        adopts=True,
        references={named_by: of.type} if named_by else {},
        rules=(_principal,),
        admission=(_known,),
        permissions=verbs(of.permissions[0].rpartition(".")[0], "getIamPolicy", "setIamPolicy"),
        role=of.role,
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
    """A service account must exist, and the first cluster creates the project's workload pool.

    The pool: terraform-google-modules/terraform-google-kubernetes-engine issue 916.
    """
    for member in texts(inputs, "member"):
        email = member.removeprefix("serviceAccount:")
        # Google's own service agents are named `service-NUMBER@...` or have domains of their own.
        of_a_user = email.endswith(".iam.gserviceaccount.com") and not email.startswith("service-")
        if email != member and of_a_user and existing.named(ACCOUNT.type, email) is None:
            yield f"googleapi: Error 400: Service account {email} does not exist., badRequest"
        # On Autopilot service accounts of a cluster are always known to IAM.
        known = ("enableAutopilot", "workloadIdentityConfig")
        clusters = [cluster.inputs for cluster in existing.of_type(CLUSTER.type)]
        if ".svc.id.goog" in member and not any(inputs.get(key) for inputs in clusters for key in known):
            pool = member.partition(".svc.id.goog")[0].rpartition("/")[2].removeprefix("serviceAccount:")
            yield f"googleapi: Error 400: Identity Pool does not exist ({pool}.svc.id.goog)., badRequest"


# The program creates no project.
_PROJECT_MEMBER: Final = member_of(
    Record(
        type="",
        api="cloudresourcemanager.googleapis.com",
        id="{project}",
        permissions=verbs("resourcemanager.projects", "get"),
        role="roles/resourcemanager.projectIamAdmin",
    ),
    "gcp:projects/iAMMember:IAMMember",
    "{project}",
    deletes_first=True,  # `DeleteBeforeReplace` in pulumi-gcp's provider/resources.go
)
_ACCOUNT_MEMBER: Final = member_of(
    ACCOUNT, "gcp:serviceaccount/iAMMember:IAMMember", "{serviceAccountId}", "serviceAccountId"
)
