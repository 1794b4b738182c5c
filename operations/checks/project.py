"""The project: that it is there, pays, and has its APIs enabled."""

from collections.abc import Iterator

from cloud.serviceusage import SERVICE
from operations.clients import Clients
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.plan import StackPlan


def check_project(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That it exists, may be used, and that somebody pays for it."""
    try:
        found = clients.call("cloudresourcemanager.v3", "projects.get", name=f"projects/{plan.project}")
    except CallError as error:
        if error.disabled or not (error.forbidden or error.missing):
            raise
        yield problem(
            f"there is no project {plan.project}, or it is not open to these credentials",
            f"pulumi config set gcp:project PROJECT --stack {plan.stack}; or "
            "gcloud auth application-default login as somebody who may use it",
        )
        return
    if found.get("state") != "ACTIVE":
        yield problem(
            f"project {plan.project} is {found.get('state', 'in no state')}",
            f"gcloud projects undelete {plan.project}, or choose another project",
        )
        return
    yield fine(f"{plan.project} ({str(found.get('name', '')).removeprefix('projects/')}) is active")
    info = clients.call("cloudbilling.v1", "projects.getBillingInfo", name=f"projects/{plan.project}")
    if info.get("billingEnabled"):
        yield fine("billing is enabled")
    else:
        yield problem(
            f"project {plan.project} has no billing account, or a closed one",
            f"gcloud billing projects link {plan.project} --billing-account ACCOUNT",
        )


def check_apis(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That the APIs which the program enables are enabled already; it waits for those that are not."""
    wanted = sorted(str(service.inputs["service"]) for service in plan.of_type(SERVICE.type))
    asked = {"parent": f"projects/{plan.project}", "filter": "state:ENABLED", "pageSize": 200}
    listed = clients.every("serviceusage.v1", "services.list", **asked)
    enabled = {(service.get("config") or {}).get("name") for service in listed}
    missing = [name for name in wanted if name not in enabled]
    if missing:
        yield warning(
            f"not enabled yet: {', '.join(missing)}; `pulumi up` enables them, and until then what they "
            "would answer cannot be checked",
            f"gcloud services enable {' '.join(missing)} --project {plan.project}",
        )
    else:
        yield fine(f"all {len(wanted)} are enabled")
