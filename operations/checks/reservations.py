"""Checks the reservations that the plan consumes."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from components.cluster.capacity import Reservation
from operations.cost.machines import Machines, machines_of
from operations.errors import CallError
from operations.findings import Finding, Level, fine, problem, unknown, warning
from operations.google.clients import Clients, last
from operations.plan import StackPlan

# States in which Google will deliver what was asked for.
_COMING: Final = ("APPROVED", "COMMITTED", "PROCURING", "PROVISIONING")


def check_reservations(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that every reservation of the plan has room for the plan.

    In a list of capacities a reservation without room is no problem: the next capacity is tried.
    """
    every = machines_of(plan)
    groups: dict[tuple[Reservation, str], list[Machines]] = {}
    for machines in every:
        if machines.reservation:
            groups.setdefault((machines.reservation, machines.type_name), []).append(machines)
    for (reservation, _), group in groups.items():
        resources = [machines.resource for machines in group]
        listed = [str(other.capacity) for other in every if other.resource in resources]
        others = [capacity for capacity in listed if capacity != group[0].capacity]
        # Several node pools take from it at the same time.
        most = sum(machines.most for machines in group)
        together = replace(group[0], resource=", ".join(resources), most=most)
        for finding in _of_reservation(plan, clients, together, reservation):
            if finding.level is Level.PROBLEM and others:
                what = f"{finding.what}; then {' or '.join(others)} is tried"
                yield replace(finding, level=Level.WARNING, what=what)
            else:
                yield finding


def _of_reservation(
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
            f"reservation {name} is in project {owner}, which these credentials cannot read",
            f"ask its owner for compute.reservations.get there, and whether {plan.project} is among the "
            "projects that it is shared with",
        )
        return
    by_zone = {last(entry.get("zone")): entry for entry in listed if entry.get("name") == name}
    here = {zone: entry for zone, entry in by_zone.items() if zone.rpartition("-")[0] == plan.region}
    for zone, entry in here.items():
        yield from _fit(plan, machines, owner, zone, entry)
    if by_zone and not here:
        yield problem(
            f"there is no reservation {name} in project {owner} in region {plan.region}, "
            f"but in {', '.join(by_zone)}",
            f"pulumi config set gcp:region REGION --stack {plan.stack}",
        )
    elif not here:
        yield _coming(plan, clients, owner, name) or problem(
            f"there is no reservation {name} in project {owner}",
            f"pulumi config set capacity.reservation NAME --stack {plan.stack}; "
            f"`gcloud compute reservations list --project {owner}` has them",
        )


def _coming(plan: StackPlan, clients: Clients, owner: str, name: str) -> Finding | None:
    """When a reservation begins that was booked for a later time. None if there is none of that name."""
    booked: list[dict[str, Any]] = []
    # Not everybody may read bookings, and without one there is just no reservation.
    with suppress(CallError):
        booked = clients.every("compute.v1", "futureReservations.aggregatedList", project=owner)
    for entry in booked:
        names = (entry.get("reservationName"), entry.get("name"))
        state = str((entry.get("status") or {}).get("procurementStatus"))
        start = str((entry.get("timeWindow") or {}).get("startTime") or "")
        if name not in names or state not in _COMING or not start:
            continue
        days = (datetime.fromisoformat(start.replace("Z", "+00:00")) - datetime.now(UTC)).days
        return problem(
            f"reservation {name} starts in {max(days, 0)} days, at {start}",
            "run `pulumi up` then, or put another capacity behind it: docs/capacity.md",
        )
    return None


def _fit(
    plan: StackPlan, machines: Machines, owner: str, zone: str, entry: dict[str, Any]
) -> Iterator[Finding]:
    reservation = f"reservation {entry['name']}"
    at = f"{entry['name']} --zone {zone} --project {owner}"
    describe = f"gcloud compute reservations describe {at}"
    specific = entry.get("specificReservation") or {}
    shape = last(specific.get("instanceProperties", {}).get("machineType"))
    free = int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))
    faults = []
    if entry.get("status") != "READY":
        faults.append(problem(f"{reservation} is {entry.get('status')}", describe))
    if owner != plan.project and not _shared_with(entry, plan.project):
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
    elif not entry.get("specificReservationRequired"):
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
        text = (
            f"{reservation} has {free} free machines, and {machines.most} are needed by {machines.resource}"
        )
        elsewhere = f"python -m operations capacity --stack {plan.stack} asks where else there are some"
        faults.append(problem(text, f"end what uses it, or ask for fewer nodes; {elsewhere}"))
    yield from faults or [fine(f"{entry['name']} in {zone}: {free} {shape} free")]


def _shared_with(reservation: dict[str, Any], project: str) -> bool:
    settings = reservation.get("shareSettings", {})
    # Keys are ids or numbers of projects. The values have the ids.
    shared = settings.get("projectMap", {})
    named = {*shared, *(entry.get("projectId") for entry in shared.values())}
    return settings.get("shareType") == "ORGANIZATION" or project in named
