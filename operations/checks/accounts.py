"""Checks service accounts that the stack does not create: the setting `accounts`."""

from collections.abc import Iterator
from typing import Final

from cloud.services.iam import ACT_AS
from operations.checks.policies import Members, members_of
from operations.errors import CallError
from operations.findings import Finding, fine, problem, unknown
from operations.google.clients import Clients
from operations.plan import StackPlan
from stacks.settings.accounts import PROJECT_ROLES

_BOOTSTRAP: Final = "run `pulumi up` of the bootstrap, which makes it (docs/merge-requests.md)"


def check_accounts(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that each account exists, has its roles in the project, and that you may act as it."""
    if not plan.accounts:
        return
    method, project = "projects.getIamPolicy", f"projects/{plan.project}"
    policy = members_of(clients, "cloudresourcemanager.v3", method, resource=project)
    for purpose, email in plan.accounts.items():
        faults = [*_faults(plan, clients, purpose, email, policy)]
        yield from faults or [fine(f"{email} is there for {purpose}")]


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
