"""Checks who acts in the project: the setting `accounts`, members of basic roles, Cloud Build's account."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cloud.services.cloudbuild import BUILD
from cloud.services.iam import ACT_AS
from operations.checks.policies import Members, members_of
from operations.errors import CallError
from operations.findings import Finding, fine, problem, unknown, warning
from operations.google.clients import Clients
from operations.plan import StackPlan
from stacks.settings.accounts import PROJECT_ROLES

_BOOTSTRAP: Final = "run `pulumi up` of the bootstrap, which makes it (docs/merge-requests.md)"
# What the members of a basic role reach. Google gives viewers and editors roles on every new bucket. Reader
# and writer are the newer basic roles. https://docs.cloud.google.com/iam/docs/roles-overview#basic
_READ: Final = "read every bucket: models, rows of data and the state"
_WRITE: Final = "write every bucket, the state too, and act as the project's service accounts"
_BASIC_ROLES: Final[Mapping[str, str]] = {
    "roles/viewer": _READ,
    "roles/reader": _READ,
    "roles/editor": _WRITE,
    "roles/writer": _WRITE,
}
_OWNERS: Final = ("roles/owner", "roles/admin")
# Google's own account of Compute Engine's instance groups is an editor of every project.
_OF_GOOGLE: Final = "@cloudservices.gserviceaccount.com"
_NAMED: Final = 5
# Account with which builds start for callers who may act as no account.
_LEGACY_BUILDER: Final = "@cloudbuild.gserviceaccount.com"


def check_accounts(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that each account exists, has its roles in the project, and that you may act as it."""
    if not plan.accounts:
        return
    policy = _policy(plan, clients)
    for purpose, email in plan.accounts.items():
        faults = [*_faults(plan, clients, purpose, email, policy)]
        yield from faults or [fine(f"{email} is there for {purpose}")]


def check_basic_roles(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Names the members of roles that reach every bucket of the project."""
    policy = _policy(plan, clients)
    if policy is None:
        yield unknown(
            "you may not see who has a basic role in the project",
            "ask for roles/iam.securityReviewer on the project, then again",
        )
        return
    for role, reach in _BASIC_ROLES.items():
        members = sorted(member for of, member in policy if of == role and not member.endswith(_OF_GOOGLE))
        if members:
            yield warning(
                f"{role}: {_listed(members)} {reach}",
                "give them narrower roles, then gcloud projects remove-iam-policy-binding "
                f"{plan.project} --member MEMBER --role {role}",
            )
    owners = sorted(member for role, member in policy if role in _OWNERS)
    yield fine(f"owners, who reach everything: {_listed(owners)}" if owners else "nobody here is an owner")


def check_builder(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that a build for which nobody names an account cannot reach the project's buckets."""
    for build in plan.of_type(BUILD.type):
        place = f"projects/{plan.project}/locations/{build.inputs['location']}"
        asked = {"name": f"{place}/defaultServiceAccount"}
        answer = clients.call("cloudbuild.v1", "projects.locations.getDefaultServiceAccount", **asked)
        email = str(answer.get("serviceAccountEmail", "")).rpartition("/")[2]
        if not email.endswith(_LEGACY_BUILDER):
            yield fine(f"builds without an account {f'run as {email}' if email else 'are refused'}")
            continue
        policy = _policy(plan, clients)
        roles = sorted(role for role, member in policy or () if member == f"serviceAccount:{email}")
        if policy is not None and not roles:
            yield fine(f"builds without an account run as {email}, which has no role")
            continue
        yield problem(
            f"builds for which nobody names an account run as {email}, Cloud Build's legacy account: who may "
            f"build has its roles, {', '.join(roles) or 'which you may not see'}",
            f"gcloud projects remove-iam-policy-binding {plan.project} --member serviceAccount:{email} "
            f"--role {(*roles, 'ROLE')[0]}",
        )


def _policy(plan: StackPlan, clients: Clients) -> Members | None:
    method, project = "projects.getIamPolicy", f"projects/{plan.project}"
    return members_of(clients, "cloudresourcemanager.v3", method, resource=project)


def _listed(members: Sequence[str]) -> str:
    more = len(members) - _NAMED
    return ", ".join(members[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _faults(
    plan: StackPlan, clients: Clients, purpose: str, email: str, policy: Members | None
) -> Iterator[Finding]:
    path = f"projects/-/serviceAccounts/{email}"
    try:
        account = clients.call("iam.v1", "projects.serviceAccounts.get", name=path)
    except CallError as error:
        if not error.missing:
            raise
        yield problem(f"there is no service account {email}", _BOOTSTRAP)
        return
    if account.get("disabled"):
        yield problem(f"service account {email} is disabled", f"gcloud iam service-accounts enable {email}")
    (permission, role), *_ = ACT_AS.items()
    asked = {"permissions": [permission]}
    method = "projects.serviceAccounts.testIamPermissions"
    if permission not in clients.call("iam.v1", method, resource=path, body=asked).get("permissions", ()):
        yield problem(
            f"you may not act as {email}",
            f"gcloud iam service-accounts add-iam-policy-binding {email} --member user:YOU --role {role}",
        )
    for role in PROJECT_ROLES[purpose]:
        grant = (
            f"gcloud projects add-iam-policy-binding {plan.project} --member serviceAccount:{email} "
            f"--role {role}"
        )
        if policy is None:
            yield unknown(f"you may not see whether {email} has {role}", grant)
        elif (role, f"serviceAccount:{email}") not in policy:
            yield problem(f"{email} has no {role} in {plan.project}", grant)
