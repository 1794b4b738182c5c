"""The reservation that the plan consumes: there, open to the project, of the right shape, and free."""

from collections.abc import Iterator
from typing import Any

from components.capacity import Reservation
from operations.clients import Clients, last
from operations.errors import CallError
from operations.findings import Finding, fine, problem, unknown, warning
from operations.machines import Machines, machines_of
from operations.plan import StackPlan


def check_reservations(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That every reservation of the plan can be consumed as far as the plan needs it."""
    for machines in machines_of(plan):
        if machines.reservation:
            yield from _check(plan, clients, machines, machines.reservation)


def _check(
    plan: StackPlan, clients: Clients, machines: Machines, reservation: Reservation
) -> Iterator[Finding]:
    name, owner = reservation.name, reservation.project or plan.project
    try:
        listed = clients.every(
            "compute.v1", "reservations.aggregatedList", project=owner, filter=f'name = "{name}"'
        )
    except CallError as error:
        if owner == plan.project or not error.forbidden or error.disabled:
            raise
        yield unknown(
            f"reservation {name} is in project {owner}, which these credentials may not look at",
            f"ask its owner for compute.reservations.get there, and whether {plan.project} is among the "
            "projects that it is shared with",
        )
        return
    found = {last(each.get("zone")): each for each in listed if each.get("name") == name}
    here = {zone: each for zone, each in found.items() if zone.rpartition("-")[0] == plan.region}
    for zone, each in here.items():
        yield from _judged(plan, machines, owner, zone, each)
    if found and not here:
        yield problem(
            f"there is no reservation {name} in project {owner} in region {plan.region}, "
            f"but in {', '.join(found)}",
            f"pulumi config set gcp:region REGION --stack {plan.stack}",
        )
    elif not here:
        yield problem(
            f"there is no reservation {name} in project {owner}",
            f"pulumi config set capacity.reservation NAME --stack {plan.stack}; "
            f"`gcloud compute reservations list --project {owner}` has them",
        )


def _judged(
    plan: StackPlan, machines: Machines, owner: str, zone: str, found: dict[str, Any]
) -> Iterator[Finding]:
    reservation = f"reservation {found['name']}"
    at = f"{found['name']} --zone {zone} --project {owner}"
    describe = f"gcloud compute reservations describe {at}"
    specific = found.get("specificReservation") or {}
    shape = last(specific.get("instanceProperties", {}).get("machineType"))
    free = int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))
    faults = []
    if found.get("status") != "READY":
        faults.append(problem(f"{reservation} is {found.get('status')}", describe))
    if owner != plan.project and not _shared_with(found, plan.project):
        faults.append(
            problem(
                f"{reservation} of project {owner} is not shared with {plan.project}",
                f"its owner: gcloud compute reservations update {at} --add-share-with {plan.project}",
            )
        )
    if machines.zones and zone not in machines.zones:
        key = "zone" if machines.type and machines.type.is_tpu else "zones"
        faults.append(
            problem(
                f"{reservation} is in {zone}, the nodes are in {', '.join(machines.zones)}",
                f"pulumi config set {key} {zone} --stack {plan.stack}",
            )
        )
    if not specific:
        text = f"{reservation} does not reserve machines of one type; whether {machines.most} "
        faults.append(warning(f"{text}{machines.type_name} fit is not known", describe))
    elif not found.get("specificReservationRequired"):
        text = f"{reservation} is open to every machine of its type, and others may take it first"
        faults.append(warning(text, "make one with --require-specific-reservation"))
    if specific and shape != machines.type_name:
        faults.append(
            problem(
                f"{reservation} is for {shape}, and {machines.resource} needs {machines.type_name}",
                f"pulumi config set capacity.reservation NAME --stack {plan.stack}",
            )
        )
    elif specific and free < machines.most:
        text = f"{reservation} has {free} free machines, and {machines.resource} needs {machines.most}"
        faults.append(problem(text, "end what uses it, or ask for fewer nodes"))
    yield from faults or [fine(f"{found['name']} in {zone}: {free} {shape} free")]


def _shared_with(reservation: dict[str, Any], project: str) -> bool:
    settings = reservation.get("shareSettings", {})
    # Keys are ids or numbers of projects; each value has the id.
    shared = settings.get("projectMap", {})
    named = {*shared, *(each.get("projectId") for each in shared.values())}
    return settings.get("shareType") == "ORGANIZATION" or project in named
