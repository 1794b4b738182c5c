"""`python -m operations capacity`: where Google has machines for a stack. It changes nothing."""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any, Final

from rich.console import Console

import stacks
from components.cluster.capacity import CapacityType
from operations import plan
from operations.capacity.advice import History, Refused, Score, Window
from operations.capacity.proposal import Proposal, is_good, propose, spot_is_short
from operations.capacity.rows import Questions, Reserved, Row, wanted_machines
from operations.errors import OperationError
from operations.findings import Finding, cell, folding
from operations.google.credentials import clients_of
from operations.options import add_set, add_shared
from operations.plan import StackPlan
from stacks.settings.model import keys_of

HELP: Final = "ask Google where it has the stack's machines: estimates, reservations, the calendar"

_HEADS: Final = ("zone", "reservation", "flex-start", "spot", "on demand", "calendar")
_DAY_HOURS: Final = 24
_DAYS: Final = 7
_MOST_DAYS: Final = 90
_NOBODY_COULD_SAY: Final = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_shared(parser)
    add_set(parser)
    parser.add_argument(
        "--region", action="append", default=[], help="a region in place of the stack's; may be repeated"
    )
    parser.add_argument(
        "--machine",
        metavar="TYPE",
        action="append",
        default=[],
        help="a machine type in place of the stack's, such as a3-ultragpu-8g; may be repeated",
    )
    parser.add_argument("--nodes", metavar="N", type=int, help="number of nodes in place of the stack's")
    parser.add_argument(
        "--days",
        metavar="D",
        type=int,
        help="days for which the calendar is asked; by default those of maxRunHours, or 7",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the answers. Returns 0 if nodes can probably be had, 1 if not, 2 if nobody could say."""
    for name, number, most in (("nodes", options.nodes, math.inf), ("days", options.days, _MOST_DAYS)):
        if number is not None and not 1 <= number <= most:
            raise OperationError(f"--{name} {number}: give a number from 1 on, for days up to {_MOST_DAYS}")
    logged_in = partial(clients_of, options.stack, "", options.endpoint)
    with Console(stderr=True).status(f"planning {options.stack}") as status:
        planned = plan.load(options.stack, options.set, first=logged_in)
        needs = wanted_machines(planned, options.machine, options.nodes)
        regions = list(dict.fromkeys(options.region)) or [planned.region]
        status.update("asking Google")
        now = current_time()
        clients = clients_of(planned.stack, planned.project, options.endpoint)
        questions = Questions(planned, clients, options.days or _days(planned), now)
        rows, quotas = questions.rows(needs, regions), questions.quotas(needs, regions)
    proposals = [
        proposal
        for _, group in groupby(rows, key=lambda row: (row.machine.name, row.zone.rpartition("-")[0]))
        if (proposal := propose([*group]))
    ]
    if options.json:
        print(json.dumps(_as_json(planned, now, rows, quotas, proposals), indent=2))
    else:
        _show(planned, now, rows, quotas, proposals)
    if any(map(is_good, rows)):
        return 0
    asked = [answer for row in rows for answer in row.answers]
    answered = any(not isinstance(answer, Refused) or answer.is_answer for answer in asked)
    return 1 if answered else _NOBODY_COULD_SAY


def current_time() -> datetime:
    """The time of the questions."""
    return datetime.now(UTC)


def commands(planned: StackPlan, proposal: Proposal) -> Iterator[str]:
    """The commands that set a proposal."""
    keys = keys_of(stacks.scenario_modules()[str(planned.setting("scenario"))].Settings)
    kinds = proposal.kinds if "capacity.minutes" in keys else proposal.kinds[:1]

    def set_to(key: str, value: str) -> str:
        return f"pulumi config set {key} {shlex.quote(value)} --stack {planned.stack}"

    region = proposal.zone.rpartition("-")[0]
    if region != planned.region:
        yield set_to("gcp:region", region)
    if "machine" in keys and planned.setting("machine") != proposal.machine:
        yield set_to("machine", proposal.machine)
    yield set_to("capacity.type", str(kinds[0]) if len(kinds) == 1 else json.dumps([*map(str, kinds)]))
    if proposal.kinds[0] is CapacityType.RESERVATION:
        yield set_to("capacity.reservation", proposal.reservation)
    elif planned.setting("capacity.reservation"):
        yield f"pulumi config rm capacity.reservation --stack {planned.stack}"
    if planned.setting("capacity.minutes"):
        yield f"pulumi config rm capacity.minutes --stack {planned.stack}"
    zone = proposal.reserved_in if kinds == (CapacityType.RESERVATION,) else proposal.zone
    if "capacity.zone" in keys and len(kinds) > 1:
        yield set_to("capacity.zone", zone)
    elif own := {"zone", "zones"} & {*keys}:
        yield set_to(own.pop(), zone)
    elif planned.setting("capacity.zone") and planned.setting("transport") in (None, "tcp"):
        yield f"pulumi config rm capacity.zone --stack {planned.stack}"


def _days(planned: StackPlan) -> int:
    """Days of a run."""
    hours = planned.setting("maxRunHours")
    return min(_MOST_DAYS, math.ceil(float(hours) / _DAY_HOURS)) if hours else _DAYS


def _show(
    planned: StackPlan,
    now: datetime,
    rows: Sequence[Row],
    quotas: Sequence[tuple[str, Finding]],
    proposals: Sequence[Proposal],
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 118)
    numbers: dict[str, int] = {}
    nodes = ", ".join(dict.fromkeys(f"{row.nodes} {row.machine.name}" for row in rows))
    table = folding(f"where Google has {nodes} for {planned.stack}, {now:%Y-%m-%d %H:%M} UTC", *_HEADS)
    for row in rows:
        table.add_row(*(cell(text) for text in _cells(row, numbers)))
    console.print(table)
    for reason, number in numbers.items():
        console.print(cell(f"({number}) {reason}"))
    for where, finding in quotas:
        remedy = f": {finding.remedy}" if finding.remedy else ""
        console.print(cell(f"Quota of {where}: {finding.what}{remedy}"))
    for text in _notes(planned, proposals):
        console.print(cell(text), soft_wrap=text.startswith(" "))


def _notes(planned: StackPlan, proposals: Sequence[Proposal]) -> Iterator[str]:
    yield (
        "A score is Google's estimate for this moment, from 0 to 1, and no promise. It knows no quota of "
        "yours. Flex-start waits until there are machines: a low score means a longer wait."
    )
    if not proposals:
        yield "No kind of capacity has a score of 0.4 or more, and no reservation has all nodes free."
    for proposal in proposals:
        where = proposal.zone
        yield f"For {proposal.machine}: {', then '.join(map(str, proposal.kinds))}, in {where}:"
        yield from (f"  {command}" for command in commands(planned, proposal))
        if where.rpartition("-")[0] != planned.region:
            yield (
                "  Another region is another cluster, another bucket and another image: make a stack of its "
                "own for it, and copy the run."
            )
    yield "Nothing was changed."


def _cells(row: Row, numbers: dict[str, int]) -> Iterator[str]:
    """The texts of a row. Reasons are numbered below the table."""

    def refused(answer: Refused) -> str:
        return f"{answer.short} ({numbers.setdefault(answer.reason, len(numbers) + 1)})"

    def text(answer: Score | Refused) -> str:
        if isinstance(answer, Refused):
            return refused(answer)
        short = f" for {answer.nodes} of {row.nodes}" if answer.nodes < row.nodes else ""
        return f"{answer.obtainability:.2f}{short}"

    reservation, booked = row.reservation, row.calendar
    yield f"{row.zone}\n{row.machine.name}"
    yield (
        f"{reservation.free} of {row.nodes} free in {reservation.name}"
        if isinstance(reservation, Reserved)
        else refused(reservation)
    )
    yield text(row.flex_start)
    past = [refused(row.history)] if isinstance(row.history, Refused) else _past(row, row.history)
    yield "\n".join([text(row.spot), *_lifetime(row.spot), *past])
    yield text(row.on_demand)
    yield f"from {booked.start[:10]}" if isinstance(booked, Window) else refused(booked)


def _past(row: Row, past: History) -> Iterator[str]:
    """Spot in the last week, and its price."""
    if past.rates:
        mean, number = sum(past.rates) / len(past.rates), len(past.rates)
        yield f"{mean:.0%} preempted in {number} day{'s' if number > 1 else ''}"
    if past.dollars is not None:
        yield f"{past.dollars * row.nodes:,.2f} dollars an hour"
    if spot_is_short(row):
        yield "too short: not proposed"


def _lifetime(spot: Score | Refused) -> Iterator[str]:
    """How long Google expects spot machines to live."""
    if isinstance(spot, Score) and spot.uptime_s is not None:
        hours, minutes = spot.uptime_s // 3600, spot.uptime_s // 60
        yield f"lives {hours} h or more" if hours else f"lives {minutes} min or more"


def _as_json(
    planned: StackPlan,
    now: datetime,
    rows: Sequence[Row],
    quotas: Sequence[tuple[str, Finding]],
    proposals: Sequence[Proposal],
) -> dict[str, Any]:
    names = ("reservation", "flex_start", "spot", "history", "on_demand", "calendar")
    return {
        "stack": planned.stack,
        "asked": now.isoformat(timespec="seconds"),
        "rows": [
            {
                **{"zone": row.zone, "machine": row.machine.name, "nodes": row.nodes},
                **{name: asdict(getattr(row, name)) for name in names},
            }
            for row in rows
        ],
        "quotas": [{"where": where, **asdict(finding)} for where, finding in quotas],
        "proposals": [
            {**asdict(proposal), "commands": [*commands(planned, proposal)]} for proposal in proposals
        ],
    }
