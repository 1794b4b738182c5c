"""The reservation that the plan consumes: there, open to the project, of the right shape, and free."""

from collections.abc import Iterator
from typing import Any

from components.capacity import Reservation
from operations.clients import Clients
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
    owner = reservation.project or plan.project
    try:
        found = _find(clients, owner, reservation.name)
    except CallError as error:
        if owner == plan.project or not error.forbidden or error.disabled:
            raise
        yield unknown(
            f"reservation {reservation.name} is in project {owner}, which these credentials may not look at",
            f"ask its owner for compute.reservations.get there, and whether {plan.project} is among the "
            "projects that it is shared with",
        )
        return
    here = [each for each in found if _zone(each).rpartition("-")[0] == plan.region]
    if not here:
        places = ", ".join(_zone(each) for each in found)
        yield problem(
            f"there is no reservation {reservation.name} in project {owner}"
            + (f" in region {plan.region}, but in {places}" if places else ""),
            f"pulumi config set gcp:region REGION --stack {plan.stack}"
            if places
            else f"pulumi config set capacity.reservation NAME --stack {plan.stack}; "
            f"`gcloud compute reservations list --project {owner}` has them",
        )
        return
    for each in here:
        findings = list(_faults(plan, machines, owner, each))
        yield from findings
        if not findings:
            yield fine(f"{reservation.name} in {_zone(each)}: {_free(each)} {_shape(each)} free")


def _faults(plan: StackPlan, machines: Machines, owner: str, found: dict[str, Any]) -> Iterator[Finding]:
    name, zone = found.get("name"), _zone(found)
    if found.get("status") != "READY":
        yield problem(
            f"reservation {name} is {found.get('status')}",
            f"gcloud compute reservations describe {name} --zone {zone} --project {owner}",
        )
    if owner != plan.project and not _shared_with(found, plan.project):
        yield problem(
            f"reservation {name} of project {owner} is not shared with {plan.project}",
            f"its owner: gcloud compute reservations update {name} --zone {zone} --project {owner} "
            f"--add-share-with {plan.project}",
        )
    if machines.zones and zone not in machines.zones:
        yield problem(
            f"reservation {name} is in {zone}, the nodes are in {', '.join(machines.zones)}",
            f"pulumi config set zones {zone} --stack {plan.stack}",
        )
    if "specificReservation" not in found:
        yield warning(
            f"reservation {name} does not reserve machines of one type; whether {machines.most} "
            f"{machines.type_name} fit is not known",
            f"gcloud compute reservations describe {name} --zone {zone} --project {owner}",
        )
        return
    if not found.get("specificReservationRequired"):
        yield warning(
            f"reservation {name} is open to every machine of its type, and others may take it first",
            "make one with --require-specific-reservation",
        )
    if _shape(found) != machines.type_name:
        yield problem(
            f"reservation {name} is for {_shape(found)}, and {machines.resource} needs {machines.type_name}",
            f"pulumi config set capacity.reservation NAME --stack {plan.stack}",
        )
    elif _free(found) < machines.most:
        yield problem(
            f"reservation {name} has {_free(found)} free machines, and {machines.resource} needs "
            f"{machines.most}",
            "end what uses it, or ask for fewer nodes",
        )


def _find(clients: Clients, project: str, name: str) -> list[dict[str, Any]]:
    listed = clients.every(
        "compute.v1", "reservations.aggregatedList", project=project, filter=f'name = "{name}"'
    )
    return [each for each in listed if each.get("name") == name]


def _zone(reservation: dict[str, Any]) -> str:
    return str(reservation.get("zone", "")).rpartition("/")[2]


def _shape(reservation: dict[str, Any]) -> str:
    machine = reservation["specificReservation"].get("instanceProperties", {}).get("machineType", "")
    return str(machine).rpartition("/")[2]


def _free(reservation: dict[str, Any]) -> int:
    specific = reservation["specificReservation"]
    return int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))


def _shared_with(reservation: dict[str, Any], project: str) -> bool:
    settings = reservation.get("shareSettings", {})
    if settings.get("shareType") == "ORGANIZATION":
        return True
    # Keys are ids or numbers of projects; each value has the id.
    shared = settings.get("projectMap", {})
    return project in shared or any(each.get("projectId") == project for each in shared.values())
