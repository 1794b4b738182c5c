"""What `capacity` asks Google about, zone by zone, and the answers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from cloud.machines import MACHINES, Machine
from components.cluster.capacity import CapacityType
from operations.capacity.advice import History, Need, Refused, Score, Window, calendar, history, score
from operations.checks.places import zones_with
from operations.checks.quotas import needs_of_machines, room_for
from operations.cost.machines import Machines, machines_of
from operations.errors import CallError, OperationError
from operations.findings import Finding, Level, unknown
from operations.google.clients import Clients, last
from operations.plan import StackPlan

# Google answers a call in about a second, and one caller may not ask many at once.
_AT_ONCE: Final = 4
# Nobody is asked these.
_NO_ADVICE: Final = Refused(short="try", reason="Google tells nothing about TPUs but the calendar: try")
_NOT_SOLD: Final = Refused(short="not sold", reason="Google does not sell this machine on demand")
_NO_CALENDAR: Final = Refused(short="not booked", reason="Google's calendar does not have this machine here")
_NOTHING_RESERVED: Final = Refused(
    short="none", reason="the project has no reservation of such machines in this zone", is_answer=True
)
_HERE_NOT: Final = Refused(
    short="not offered", reason="no zone of this region that the project sees has the machine", is_answer=True
)
Answer = Score | Refused


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """The reservation in a zone with the most free machines.

    Args:
        name: Its path if another project shares it.
    """

    name: str
    free: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """The answers for a machine in a zone.

    Args:
        zone: A region if none of its zones has the machine.
        nodes: Number of nodes that were asked for.
    """

    zone: str
    machine: Machine
    nodes: int
    reservation: Reserved | Refused
    flex_start: Answer
    spot: Answer
    history: History | Refused
    on_demand: Answer
    calendar: Window | Refused

    @property
    def region(self) -> str:
        """The zone's region."""
        return self.zone.rpartition("-")[0]

    @property
    def scores(self) -> dict[CapacityType, Score]:
        """The estimates for all nodes, by the kind of capacity."""
        answers = {
            CapacityType.FLEX_START: self.flex_start,
            CapacityType.SPOT: self.spot,
            CapacityType.ON_DEMAND: self.on_demand,
        }
        return {
            kind: answer
            for kind, answer in answers.items()
            if isinstance(answer, Score) and answer.nodes >= self.nodes
        }

    @property
    def answers(self) -> tuple[Any, ...]:
        """Everything that was asked."""
        return (
            *(self.reservation, self.flex_start, self.spot),
            *(self.history, self.on_demand, self.calendar),
        )


def wanted_machines(plan: StackPlan, names: Sequence[str], nodes: int | None) -> list[Need]:
    """The machines to ask about: those of the plan, or others in their place.

    Raises:
        OperationError: If the plan has no machines with accelerators, or a name is unknown.
    """
    groups = [group for group in machines_of(plan) if group.type and group.type.model]
    unknown_names = [name for name in names if not (name in MACHINES and MACHINES[name].model)]
    if unknown_names:
        known = ", ".join(sorted(name for name, machine in MACHINES.items() if machine.model))
        raise OperationError(f"--machine {unknown_names[0]} is no machine with accelerators; known: {known}")
    if not groups and not (names and nodes):
        raise OperationError(
            f"stack {plan.stack} asks for no machines with accelerators; give --machine and --nodes"
        )
    planned = {group.type.name: group.type for group in groups if group.type}
    most = {name: _most([group for group in groups if group.type_name == name]) for name in planned}
    chosen = names or [*planned]
    default = max(most.values(), default=1)
    return [
        Need(project=plan.project, machine=MACHINES[name], nodes=nodes or most.get(name, default))
        for name in dict.fromkeys(chosen)
    ]


def _most(groups: Sequence[Machines]) -> int:
    """The most machines at one moment. They are of one type, and come from one capacity of a list."""
    by_capacity: Counter[CapacityType] = Counter()
    for group in groups:
        by_capacity[group.capacity] += group.most
    return max(by_capacity.values())


class Questions:
    """Asks Google about machines in regions.

    Args:
        days: Days for which the calendar is asked.
        now: The time of the questions.
    """

    def __init__(self, plan: StackPlan, clients: Clients, days: int, now: datetime) -> None:
        self._plan, self._clients, self._days, self._now = plan, clients, days, now

    def rows(self, needs: Sequence[Need], regions: Sequence[str]) -> list[Row]:
        """The answers, by machine and zone."""
        places = [(need, region, self._zones(need, region)) for need in needs for region in regions]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            pending = [
                make for need, region, zones in places for make in self._asked(pool, need, region, zones)
            ]
            return [make() for make in pending]

    def quotas(self, needs: Sequence[Need], regions: Sequence[str]) -> list[tuple[str, Finding]]:
        """What quotas say to the nodes, each with its region and machine."""
        return [
            (f"{need.machine.name} in {region}", finding)
            for need in needs
            for region in regions
            for finding in self._quotas(need, region)
        ]

    def _quotas(self, need: Need, region: str) -> Iterator[Finding]:
        kinds = [CapacityType.SPOT, *([CapacityType.ON_DEMAND] if need.machine.on_demand else [])]
        needs = {
            quota: number for kind in kinds for quota, number in needs_of_machines(_group(need, kind)).items()
        }
        try:
            for _, finding in room_for(replace(self._plan, region=region), self._clients, needs):
                if finding.level is not Level.FINE:
                    yield finding
        except CallError as error:
            yield unknown(f"quotas were not looked at: {error}")

    def _zones(self, need: Need, region: str) -> list[str] | Refused:
        """Zones of a region with the machine. Those for AI count only if the stack names them."""
        machine = need.machine
        try:
            listed = zones_with(self._clients, "machineTypes", need.project, machine.name)
            if not machine.is_tpu:
                listed &= zones_with(self._clients, "acceleratorTypes", need.project, machine.accelerator)
        except CallError as error:
            known = machine.model.zones.get(region, ()) if machine.model else ()
            if not known:
                return Refused(short="no answer", reason=str(error))
            listed = {*known}
        named = {zone for group in machines_of(self._plan) for zone in group.zones}
        zones = sorted(
            zone
            for zone in listed
            if zone.rpartition("-")[0] == region and (len(zone.rpartition("-")[2]) == 1 or zone in named)
        )
        return zones or _HERE_NOT

    def _asked(
        self, pool: ThreadPoolExecutor, need: Need, region: str, zones: Sequence[str] | Refused
    ) -> list[Callable[[], Row]]:
        """Begins to ask. Each function returns a row when its answers are there."""
        if isinstance(zones, Refused):
            return [lambda: _row(need, region, zones)]
        reserved = pool.submit(self._reserved, need)
        booked = pool.submit(self._booked, need, region, zones)
        return [self._zone(pool, need, zone, reserved, booked) for zone in zones]

    def _zone(
        self,
        pool: ThreadPoolExecutor,
        need: Need,
        zone: str,
        reserved: Future[Mapping[str, Reserved] | Refused],
        booked: Future[Mapping[str, Window | Refused]],
    ) -> Callable[[], Row]:
        tpu, sold = need.machine.is_tpu, need.machine.on_demand

        def ask(model: str) -> Future[Answer]:
            return pool.submit(score, self._clients, need, zone, model)

        flex_start, spot = (None, None) if tpu else (ask("FLEX_START"), ask("SPOT"))
        past = None if tpu else pool.submit(history, self._clients, need, zone, self._now)
        on_demand = ask("STANDARD") if sold and not tpu else None

        def row() -> Row:
            by_zone = reserved.result()
            return Row(
                zone=zone,
                machine=need.machine,
                nodes=need.nodes,
                reservation=by_zone if isinstance(by_zone, Refused) else by_zone.get(zone, _NOTHING_RESERVED),
                flex_start=flex_start.result() if flex_start else _NO_ADVICE,
                spot=spot.result() if spot else _NO_ADVICE,
                history=past.result() if past else _NO_ADVICE,
                on_demand=on_demand.result() if on_demand else _NO_ADVICE if tpu else _NOT_SOLD,
                calendar=booked.result()[zone],
            )

        return row

    def _booked(self, need: Need, region: str, zones: Sequence[str]) -> Mapping[str, Window | Refused]:
        if not need.machine.by_calendar:
            return dict.fromkeys(zones, _NO_CALENDAR)
        offered: Sequence[str] = zones
        # The calendar has chips where flex-start has them (assumption v6e-flex-start-zones).
        if need.machine.is_tpu and need.machine.model:
            offered = need.machine.model.flex_start_zones.get(region, ())
        asked = [zone for zone in zones if zone in offered]
        answers = calendar(self._clients, need, region, asked, self._days, self._now) if asked else {}
        return {zone: answers.get(zone, _NO_CALENDAR) for zone in zones}

    def _reserved(self, need: Need) -> Mapping[str, Reserved] | Refused:
        """The reservation with the most free machines, by zone."""
        named = [group.reservation for group in machines_of(self._plan) if group.reservation]
        owner = next((one.project for one in named if one.project), need.project)
        try:
            listed = self._clients.every("compute.v1", "reservations.aggregatedList", project=owner)
        except CallError as error:
            if not error.forbidden:
                return Refused(short="no answer", reason=str(error))
            reason = f"you may not read the reservations of {owner}: ask its owner for roles/compute.viewer"
            return Refused(short="not allowed", reason=reason)
        best: dict[str, Reserved] = {}
        for entry in listed:
            specific = entry.get("specificReservation") or {}
            shape = last((specific.get("instanceProperties") or {}).get("machineType"))
            zone, ready = last(entry.get("zone")), entry.get("status") == "READY"
            if shape != need.machine.name or not ready:
                continue
            free = int(specific.get("count", 0)) - int(specific.get("inUseCount", 0))
            if zone not in best or free > best[zone].free:
                name = str(entry.get("name"))
                path = name if owner == need.project else f"projects/{owner}/reservations/{name}"
                best[zone] = Reserved(name=path, free=free)
        return best


def _row(need: Need, zone: str, answer: Refused) -> Row:
    """A row whose answers are all the same."""
    return Row(
        zone=zone,
        machine=need.machine,
        nodes=need.nodes,
        reservation=answer,
        flex_start=answer,
        spot=answer,
        history=answer,
        on_demand=answer,
        calendar=answer,
    )


def _group(need: Need, kind: CapacityType) -> Machines:
    return Machines(
        resource="",
        type=need.machine,
        type_name=need.machine.name,
        kept=0,
        most=need.nodes,
        zones=(),
        capacity=kind,
        reservation=None,
        disk_gb=0,
    )
