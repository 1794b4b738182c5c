"""Region, zones, and whether they have the machines that the plan asks for."""

from collections.abc import Iterator

from operations.clients import Clients
from operations.errors import CallError
from operations.findings import Finding, fine, problem
from operations.leftovers.thing import last
from operations.machines import Machines, machines_of
from operations.plan import StackPlan


def check_places(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That region and zones exist and are up, and that the machines are offered there."""
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
    zones = {last(url) for url in region.get("zones", ())}
    for machines in machines_of(plan):
        yield from _offered(plan, clients, machines, zones)


def _offered(plan: StackPlan, clients: Clients, machines: Machines, zones: set[str]) -> Iterator[Finding]:
    if machines.type is None:
        # Autopilot would have to choose it, and nothing that is known fits.
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
        elsewhere = ", ".join(sorted(places)) or "no zone that this project sees"
        yield problem(
            f"{machines.resource}: no {machines.type.name} in {', '.join(sorted(wanted - {*here}))}",
            f"take one with it ({elsewhere}): pulumi config set zones ZONE (TPUs: zone) or gcp:region REGION",
        )
    else:
        yield fine(f"{machines.resource}: {machines.type.name} in {', '.join(here)}")


def zones_with(clients: Clients, collection: str, project: str, name: str) -> set[str]:
    """The zones that have a machine or accelerator type; one that is going away does not count."""
    listed = clients.every(
        "compute.v1", f"{collection}.aggregatedList", project=project, filter=f'name = "{name}"'
    )
    same = (each for each in listed if each.get("name") == name and "deprecated" not in each)
    return {last(each.get("zone")) for each in same}
