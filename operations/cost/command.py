"""The costs of a stack.

Quantities come from its plan, prices from Google's catalog, public lists or a file.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from cloud.prices import HOURS_PER_MONTH, ListPrice
from operations import plan
from operations.cost.budget import Budget, budget
from operations.cost.prices import (
    Price,
    Prices,
    catalog_prices,
    file_prices,
    in_place_of_a_reservation,
    or_list_prices,
)
from operations.cost.quantities import Quantity, by_use, quantities, quantities_instead
from operations.errors import OperationError
from operations.findings import cell
from operations.google.credentials import clients_of
from operations.options import add_set, add_shared
from operations.plan import StackPlan

HELP: Final = "estimate the cost of a stack per hour, per run, and for a month in which nobody uses it"

_RUN: Final = "per_run"
_COLUMNS: Final = ("per_hour", _RUN, "per_month")


@dataclass(frozen=True, kw_only=True)
class Line(Quantity):
    """A quantity with its price and the source of the price.

    Dollars are None if price or hours are unknown.
    """

    price: float | None
    source: str
    listed: ListPrice | None
    per_hour: float | None
    per_run: float | None
    per_month: float | None

    @property
    def dollars(self) -> Mapping[str, float | None]:
        """The dollars by column."""
        return {"per_hour": self.per_hour, _RUN: self.per_run, "per_month": self.per_month}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The costs of a stack, as `--json` prints them.

    Args:
        has_runs: Whether something in the stack trains. A server has no run that could end.
        hours: Hours of training in a run, None if they are unknown. `hours_from` has their source.
        trouble: Why the catalog gave no prices. Empty if it gave some.
        lines: Quantities that are billed by time.
        instead: Those of the other capacities of a list, one of which stands in place of the first.
        by_use: Items that are billed by use, with price and source.
        totals: For each column, the dollars of the lines with a price, and the number of lines without a
            price.
    """

    stack: str
    region: str
    has_runs: bool
    hours: float | None
    hours_from: str
    trouble: str
    lines: Sequence[Line]
    instead: Sequence[Line]
    by_use: Sequence[Mapping[str, Any]]
    totals: Mapping[str, Mapping[str, float]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of dollars that make sense for this stack."""
        return tuple(column for column in _COLUMNS if self.has_runs or column != _RUN)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_shared(parser)
    add_set(parser)
    parser.add_argument(
        "--hours", type=float, help="hours of a run; by default maxRunHours, the longest that a run may take"
    )
    parser.add_argument(
        "--budget",
        type=float,
        metavar="DOLLARS",
        help="print the hours of training that so many dollars pay for, and the command that sets them",
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="YAML file with dollars by key instead of the catalog; its keys are those that --json prints",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the estimate. Returns 2 if the catalog gave no prices, else 0."""
    for name, number in (("hours", options.hours), ("budget", options.budget)):
        if number is not None and not 0 < number < math.inf:
            raise OperationError(f"--{name} {number}: give a number above 0, such as 4")
    prices = file_prices(options.prices) if options.prices else None
    with Console(stderr=True).status(f"planning {options.stack}"):
        planned = plan.load(options.stack, options.set)
        if options.hours and not planned.has_runs:
            raise OperationError(
                f"--hours {options.hours:g}: stack {options.stack} trains nothing; leave it out"
            )
        estimate = _estimate(planned, options, prices)
        paid = None if options.budget is None else _paid(planned, estimate, options.budget)
    if options.json:
        more = {"budget": {**asdict(paid), "command": paid.command}} if paid else {}
        print(json.dumps({"currency": "USD", **asdict(estimate), **more}, indent=2, default=str))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120)
        _show(estimate, console)
        for note in paid.notes() if paid else ():
            console.print(cell(note))
    return 2 if estimate.trouble else 0


def _estimate(planned: StackPlan, options: argparse.Namespace, prices: Prices | None) -> Estimate:
    """The plan's quantities with prices of the file, or else of the catalog and the list prices."""
    try:
        if prices is None:
            clients = clients_of(planned.stack, planned.project, options.endpoint)
            prices = or_list_prices(catalog_prices(clients, planned.region))
        return _priced(planned, options.hours, prices)
    except OperationError as error:
        return listed_estimate(planned, options.hours, str(error))


def _paid(planned: StackPlan, estimate: Estimate, dollars: float) -> Budget:
    """What a sum pays for at the prices of an estimate, which has those of all capacities of a list."""
    known = {line.key: line for line in (*estimate.lines, *estimate.instead)}

    def price(key: str, _unit: str) -> Price:
        line = known[key]
        return Price(line.price, line.source, line.listed)

    return budget(planned, price, dollars)


def listed_estimate(planned: StackPlan, hours: float | None, trouble: str = "") -> Estimate:
    """The plan's quantities with list prices only.

    Args:
        hours: Hours of training in a run. None takes the limit in the configuration.
        trouble: Why the catalog gave no prices, if it was asked.
    """
    return _priced(planned, hours, or_list_prices(lambda *_: Price(None, "no list price is known")), trouble)


def _priced(planned: StackPlan, hours: float | None, prices: Prices, trouble: str = "") -> Estimate:
    hours_from, limit = "--hours", planned.setting("maxRunHours")
    if hours is None and limit:
        hours, hours_from = float(limit), "maxRunHours, the most that a run may take"
    lines = [_line(item, prices(item.key, item.unit), hours) for item in quantities(planned)]
    instead = [_line(item, prices(item.key, item.unit), hours) for item in quantities_instead(planned)]
    used = ((item, prices(item.key, item.unit)) for item in by_use(planned))
    totals = {}
    for column in _COLUMNS:
        dollars = [line.dollars[column] for line in lines]
        total = sum(filter(None, dollars), 0.0)
        totals[column] = {"dollars": total, "lines_without_price": dollars.count(None)}
    return Estimate(
        stack=planned.stack,
        region=planned.region,
        has_runs=planned.has_runs,
        hours=hours,
        hours_from=hours_from if hours else "",
        trouble=trouble,
        lines=lines,
        instead=instead,
        by_use=[
            {
                **{"key": item.key, "what": item.what, "unit": item.unit},
                **{"price": price.dollars, "source": price.source, "listed": price.listed},
            }
            for item, price in used
        ],
        totals=totals,
    )


def _line(quantity: Quantity, price: Price, hours: float | None) -> Line:
    def dollars(amount: float) -> float | None:
        if amount and price.dollars is None:
            return None
        return amount * (price.dollars or 0.0)

    return Line(
        **asdict(quantity),
        price=price.dollars,
        source=price.source,
        listed=price.listed,
        per_hour=dollars(quantity.most),
        per_run=None if hours is None else dollars(quantity.run * hours),
        per_month=dollars(quantity.kept * HOURS_PER_MONTH),
    )


def _show(estimate: Estimate, console: Console) -> None:
    heads = {
        "per_hour": "per hour",
        _RUN: f"per run of {estimate.hours:g} h" if estimate.hours else "per run",
        "per_month": "a month forgotten",
    }
    table = Table(title=f"cost of {estimate.stack} in {estimate.region}, US dollars", title_justify="left")
    table.add_column("what", overflow="fold", ratio=3)
    for name in ("in an hour", "unit", "price", *(heads[column] for column in estimate.columns)):
        table.add_column(name, justify="left" if name == "unit" else "right")
    for line in estimate.lines:
        table.add_row(*_row(line, estimate.columns))
    for used in estimate.by_use:
        table.add_row(cell(used["what"]), "by use", used["unit"], _price(used["price"], used["listed"]))
    table.add_section()
    table.add_row("together", "", "", "", *(_total(**estimate.totals[column]) for column in estimate.columns))
    if estimate.instead:
        table.add_section()
        table.add_row("in place of the first capacity, if it has no machines:")
    for line in estimate.instead:
        table.add_row(*_row(line, estimate.columns))
    console.print(table)
    for note in _notes(estimate):
        console.print(cell(note))


def _row(line: Line, columns: Sequence[str]) -> list[str]:
    amounts = [_text(line.dollars[column], 2) for column in columns]
    return [cell(line.what), f"{line.most:.4g}", line.unit, _price(line.price, line.listed), *amounts]


def _total(dollars: float, lines_without_price: float) -> str:
    if lines_without_price and not dollars:
        return "no price"
    return f"{dollars:,.2f}" + (" and more" if lines_without_price else "")


def _text(dollars: float | None, digits: int) -> str:
    return "no price" if dollars is None else f"{dollars:,.{digits}f}"


def _price(dollars: float | None, listed: ListPrice | None) -> str:
    return _text(dollars, 5) + ("*" if listed else "")


def reserved(estimate: Estimate) -> float | None:
    """On-demand list price of an hour of what reservations pay for, None without a reservation."""
    prices = [(line.most, in_place_of_a_reservation(line.key)) for line in estimate.lines]
    dollars = [amount * price.dollars for amount, price in prices if price]
    return sum(dollars) if dollars else None


def about_list_prices(estimate: Estimate) -> str:
    """Day and region of the list prices in an estimate. Empty if it has none."""
    listed = [*(line.listed for line in estimate.lines), *(used["listed"] for used in estimate.by_use)]
    listed += [in_place_of_a_reservation(line.key) for line in estimate.lines]
    days = sorted({price.day for price in listed if price})
    if not days:
        return ""
    regions = sorted({price.region for price in listed if price} - {"all"})
    when = f"of {days[0]}" if len(days) == 1 else f"of {days[0]} to {days[-1]}"
    return f"Google's public list prices {when}" + (f", in {' and '.join(regions)}" if regions else "")


def _notes(estimate: Estimate) -> list[str]:
    notes = [f"The Cloud Billing Catalog gave no prices: {estimate.trouble}"] if estimate.trouble else []
    if listed := about_list_prices(estimate):
        notes.append(f"* {listed}, not those of your account; other regions differ, by a tenth and more.")
    if (dollars := reserved(estimate)) is not None:
        notes.append(
            "Google bills a reservation by its contract, used or not. The part that this stack uses would "
            f"cost {dollars:,.2f} per hour at the on-demand list price."
        )
    if estimate.hours:
        notes.append(f"The hours of a run are from {estimate.hours_from}.")
    elif estimate.has_runs:
        notes.append("How long a run takes is not known: give --hours, or set maxRunHours.")
    ended = "its training has ended, " if estimate.has_runs else ""
    notes.append(f"A month forgotten: the stack is up, {ended}nobody sends requests.")
    missing = (line for line in estimate.lines if line.price is None)
    notes += dict.fromkeys(f"No price for {line.what} ({line.key}): {line.source}." for line in missing)
    notes.append("List prices, without free amounts, discounts, taxes and what is billed by use.")
    return notes
