"""Checks region and zones, and the machines that they offer."""

from collections.abc import Iterator

from cloud.services.cloudrun import L4_REGIONS
from operations.cost.machines import Machines, cloud_run_of, machines_of
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.google.clients import Clients, last
from operations.plan import StackPlan


def check_places(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that region and zones exist, are up and offer the machines."""
    try:
        region = clients.call("compute.v1", "regions.get", project=plan.project, region=plan.region)
    except CallError as error:
        if not error.missing:
            raise
        yield problem(
            f"there is no region {plan.region}",
            f"pulumi config set gcp:region REGION --stack {plan.stack}; "
            "`gcloud compute regions list` has them",
        )
        return
    if region.get("status") != "UP":
        yield problem(f"region {plan.region} is {region.get('status')}", "choose another, or wait")
    else:
        yield fine(f"region {plan.region} is up")
    if plan.region not in L4_REGIONS and any(pods.accelerators for pods in cloud_run_of(plan)):
        yield warning(
            f"Cloud Run offers L4 GPUs to everybody in {', '.join(L4_REGIONS)}, and as far as we know not in "
            f"{plan.region}",
            f"pulumi config set gcp:region {L4_REGIONS[0]} --stack {plan.stack}; "
            "https://docs.cloud.google.com/run/docs/configuring/services/gpu has the current regions",
        )
    zones = {last(url) for url in region.get("zones", ())}
    for machines in machines_of(plan):
        yield from _offered(plan, clients, machines, zones)


def _offered(plan: StackPlan, clients: Clients, machines: Machines, zones: set[str]) -> Iterator[Finding]:
    if machines.type is None:
        # Autopilot would have to choose a machine, and no known machine fits.
        yield problem(
            f"{machines.resource}: no known machine type is {machines.type_name}",
            "ask for a number of accelerators that a machine has",
        )
        return
    places = zones_with(clients, "machineTypes", plan.project, machines.type.name)
    accelerator = machines.type.accelerator
    if accelerator and not machines.type.is_tpu:
        places &= zones_with(clients, "acceleratorTypes", plan.project, accelerator)
    wanted = set(machines.zones) or zones
    here = sorted(wanted & zones & places)
    if (machines.zones and len(here) < len(wanted)) or not here:
        near = machines.zones and zones & places
        key = "gcp:region"
        if near:
            key = "zone" if machines.type.is_tpu else "zones"
        elsewhere = ", ".join(sorted(near or places)) or "no zone that this project sees"
        yield problem(
            f"{machines.resource}: no {machines.type.name} in {', '.join(sorted(wanted - {*here}))}",
            f"it is in {elsewhere}: pulumi config set {key} VALUE --stack {plan.stack}",
        )
    else:
        yield fine(f"{machines.resource}: {machines.type.name} in {', '.join(here)}")


def zones_with(clients: Clients, collection: str, project: str, name: str) -> set[str]:
    """The zones that have a machine or accelerator type that is not deprecated."""
    listed = clients.every(
        "compute.v1", f"{collection}.aggregatedList", project=project, filter=f'name = "{name}"'
    )
    same = (entry for entry in listed if entry.get("name") == name and "deprecated" not in entry)
    return {last(entry.get("zone")) for entry in same}
