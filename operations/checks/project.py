"""Checks the project: its state, billing, APIs and permissions. Also checks that a run ends."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cloud import records
from cloud.services import cloudrun, iam
from cloud.services.serviceaccount import ACCOUNT
from cloud.services.serviceusage import SERVICE
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.google.clients import Clients
from operations.plan import StackPlan

# https://docs.cloud.google.com/resource-manager/reference/rest/v3/projects/testIamPermissions
_PER_CALL: Final = 100


def check_project(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the project exists, is open to the credentials and has billing."""
    try:
        project = clients.call("cloudresourcemanager.v3", "projects.get", name=f"projects/{plan.project}")
    except CallError as error:
        if error.disabled or not (error.forbidden or error.missing):
            raise
        yield problem(
            f"there is no project {plan.project}, or it is not open to these credentials",
            f"pulumi config set gcp:project PROJECT --stack {plan.stack}; or "
            "gcloud auth application-default login as somebody who may use it",
        )
        return
    if project.get("state") != "ACTIVE":
        yield problem(
            f"project {plan.project} is {project.get('state', 'in no state')}",
            f"gcloud projects undelete {plan.project}, or choose another project",
        )
        return
    yield fine(f"{plan.project} ({str(project.get('name', '')).removeprefix('projects/')}) is active")
    info = clients.call("cloudbilling.v1", "projects.getBillingInfo", name=f"projects/{plan.project}")
    if info.get("billingEnabled"):
        yield fine("billing is enabled")
    else:
        yield problem(
            f"project {plan.project} has no billing account, or a closed one",
            f"gcloud billing projects link {plan.project} --billing-account ACCOUNT",
        )


def check_apis(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the program's APIs are enabled. `up` enables the others and waits for them."""
    wanted = sorted(str(service.inputs["service"]) for service in plan.of_type(SERVICE.type))
    asked = {"parent": f"projects/{plan.project}", "filter": "state:ENABLED", "pageSize": 200}
    listed = clients.every("serviceusage.v1", "services.list", **asked)
    enabled = {(service.get("config") or {}).get("name") for service in listed}
    missing = [name for name in wanted if name not in enabled]
    if missing:
        yield warning(
            f"not enabled yet: {', '.join(missing)}; `pulumi up` enables them, and until then preflight "
            "cannot ask them",
            f"gcloud services enable {' '.join(missing)} --project {plan.project}",
        )
    else:
        yield fine(f"all {len(wanted)} are enabled")


def needed(plan: StackPlan) -> dict[str, str]:
    """The permissions that the plan's resources need, with the role that contains each."""
    known = records.every()
    used = [known[resource.type] for resource in plan.resources if resource.type in known]
    open_to_all = any(
        service.inputs.get("invokerIamDisabled") for service in plan.of_type(cloudrun.SERVICE.type)
    )
    return {
        **{permission: record.role for record in used for permission in record.permissions},
        # Nodes, builds or instances start as an account that the stack creates.
        **(iam.ACT_AS if any(plan.of_type(ACCOUNT.type)) else {}),
        # https://docs.cloud.google.com/run/docs/authenticating/public
        **({"run.services.setIamPolicy": cloudrun.SERVICE.role} if open_to_all else {}),
    }


def check_permissions(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the credentials have every permission that the plan's resources need."""
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


def check_run_limit(plan: StackPlan, _clients: Clients) -> Iterator[Finding]:
    """Checks that a run ends by itself. What remains up is in the cost of a forgotten month."""
    if not plan.has_runs:
        return
    hours, idle_minutes = plan.setting("maxRunHours"), plan.setting("idleMinutes")
    if idle_minutes == "0":
        yield warning(
            "idleMinutes is 0: a run that hangs holds its accelerators until somebody looks",
            f"pulumi config rm idleMinutes --stack {plan.stack}",
        )
    if hours is None:
        yield warning(
            "maxRunHours is not set: a run that makes slow progress holds its accelerators until its end",
            f"pulumi config set maxRunHours 8 --stack {plan.stack}",
        )
    else:
        yield fine(f"a run may train for {hours} hours")
