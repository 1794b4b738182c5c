"""What the deployer may do, asked permission by permission: roles have other names in every company."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cloud import iam, records
from operations.clients import Clients
from operations.findings import Finding, fine, problem
from operations.plan import StackPlan

# https://docs.cloud.google.com/resource-manager/reference/rest/v3/projects/testIamPermissions
_PER_CALL: Final = 100


def needed(plan: StackPlan) -> dict[str, str]:
    """The permissions that the plan's resources need, each with the role that brings it."""
    known = records.every()
    found = [known[each.type] for each in plan.resources if each.type in known]
    return {
        **{permission: record.role for record in found for permission in record.permissions},
        # Every scenario starts nodes, builds or instances as an account that it has made.
        **iam.ACT_AS,
    }


def check_permissions(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That the credentials have every permission that the plan's resources need in the project."""
    wanted = needed(plan)
    names, missing = sorted(wanted), defaultdict(list)
    for start in range(0, len(names), _PER_CALL):
        asked = {"permissions": names[start : start + _PER_CALL]}
        method, resource = "projects.testIamPermissions", f"projects/{plan.project}"
        answer = clients.call("cloudresourcemanager.v3", method, resource=resource, body=asked)
        for permission in sorted({*asked["permissions"]} - {*answer.get("permissions", ())}):
            missing[wanted[permission]].append(permission)
    for role, permissions in sorted(missing.items()):
        yield problem(
            f"missing: {', '.join(permissions)}",
            f"gcloud projects add-iam-policy-binding {plan.project} --member user:YOU --role {role}",
        )
    if not missing:
        yield fine(f"all {len(wanted)} permissions that the plan needs")
