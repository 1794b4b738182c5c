"""What a stack costs: quantities from its plan, list prices from Google's catalog or a file."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cloud.record import Billed
from operations import plan
from operations.clients import Clients
from operations.errors import OperationError
from operations.options import add_endpoint, add_json, add_stack
from operations.plan import StackPlan
from operations.prices import CatalogPrices, FilePrices, NoPrices, Price, Prices
from operations.quantities import HOURS_PER_MONTH, Quantity, by_use, quantities

HELP: Final = "what a stack costs per hour, per run, and if it is forgotten for a month"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A quantity with its price.

    Args:
        quantity: The quantity.
        price: Of one unit.
        hours: Hours of training in a run; None when nobody says.
    """

    quantity: Quantity
    price: Price
    hours: float | None

    @property
    def per_hour(self) -> float | None:
        """Dollars for an hour in which everything runs."""
        return self._dollars(self.quantity.most)

    @property
    def per_run(self) -> float | None:
        """Dollars for a run."""
        return None if self.hours is None else self._dollars(self.quantity.run * self.hours)

    @property
    def per_month(self) -> float | None:
        """Dollars for a month in which the stack is up and nobody does anything."""
        return self._dollars(self.quantity.kept * HOURS_PER_MONTH)

    def _dollars(self, amount: float) -> float | None:
        if not amount:
            return 0.0
        return None if self.price.dollars is None else amount * self.price.dollars


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a stack costs.

    Args:
        lines: What is billed by time.
        used: What is billed by use, with the price of one unit.
        hours: As of `Line`.
        hours_from: Where the hours come from.
        trouble: Why no price could be asked for, empty otherwise.
    """

    lines: Sequence[Line]
    used: Sequence[tuple[Billed, Price]]
    hours: float | None
    hours_from: str
    trouble: str = ""

    def total(self, column: str) -> tuple[float, int]:
        """The sum of `per_hour`, `per_run` or `per_month`, and how many lines have no price in it."""
        amounts = [getattr(line, column) for line in self.lines]
        return sum(amount for amount in amounts if amount is not None), amounts.count(None)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_stack(parser)
    add_json(parser)
    add_endpoint(parser)
    parser.add_argument("--hours", type=float, help="how long a run takes; by default maxRunHours, the most")
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="YAML file with dollars by key instead of the catalog; its keys are those that --json prints",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the estimate; 2 when no price could be asked for, else 0."""
    if options.hours is not None and not options.hours > 0:
        raise OperationError(f"--hours {options.hours}: give a number above 0")
    from_file = FilePrices(options.prices) if options.prices else None
    with Console(stderr=True).status(f"planning {options.stack}"):
        planned = plan.load(options.stack, options.set)
        found = estimate(planned, options, from_file)
    if options.json:
        print(json.dumps(_as_json(planned, found), indent=2))
    else:
        _show(planned, found, Console(width=None if sys.stdout.isatty() else 120))
    return 2 if found.trouble else 0


def estimate(planned: StackPlan, options: argparse.Namespace, from_file: Prices | None) -> Estimate:
    """The plan's quantities with prices; without them when nobody can be asked."""
    hours, hours_from = _hours(planned, options.hours)
    try:
        source = from_file or CatalogPrices(Clients(planned.project, options.endpoint), planned.region)
        return _priced(planned, source, hours, hours_from, "")
    except OperationError as error:
        return _priced(planned, NoPrices("not asked"), hours, hours_from, str(error))


def _priced(
    planned: StackPlan, source: Prices, hours: float | None, hours_from: str, trouble: str
) -> Estimate:
    lines = [
        Line(quantity=each, price=source.of(each.key, each.unit), hours=hours) for each in quantities(planned)
    ]
    used = [(each, source.of(each.key, each.unit)) for each in by_use(planned)]
    return Estimate(lines=lines, used=used, hours=hours, hours_from=hours_from, trouble=trouble)


def _hours(planned: StackPlan, given: float | None) -> tuple[float | None, str]:
    if given is not None:
        return given, "--hours"
    limit = planned.setting("maxRunHours")
    return (float(limit), "maxRunHours, the most that a run may take") if limit else (None, "")


def _show(planned: StackPlan, found: Estimate, console: Console) -> None:
    run = f"per run of {found.hours:g} h" if found.hours else "per run"
    table = Table(title=f"cost of {planned.stack} in {planned.region}, US dollars", title_justify="left")
    table.add_column("what", overflow="fold", ratio=3)
    for name in ("in an hour", "unit", "price", "per hour", run, "a month forgotten"):
        table.add_column(name, justify="left" if name == "unit" else "right")
    for line in found.lines:
        quantity = line.quantity
        dollars = (line.price.dollars, line.per_hour, line.per_run, line.per_month)
        price, *amounts = (_text(each, 5 if index == 0 else 2) for index, each in enumerate(dollars))
        table.add_row(escape(quantity.what), f"{quantity.most:.4g}", quantity.unit, price, *amounts)
    for used, price in found.used:
        table.add_row(escape(used.what), "by use", used.unit, _text(price.dollars, 5), "", "", "")
    table.add_section()
    totals = [found.total(column) for column in ("per_hour", "per_run", "per_month")]
    table.add_row("together", "", "", "", *(_total(*total) for total in totals))
    console.print(table)
    for note in _notes(found):
        console.print(escape(note))


def _total(dollars: float, without: int) -> str:
    if without and not dollars:
        return "no price"
    return f"{dollars:,.2f}" + (" and more" if without else "")


def _text(dollars: float | None, digits: int) -> str:
    return "no price" if dollars is None else f"{dollars:,.{digits}f}"


def _notes(found: Estimate) -> list[str]:
    notes = [f"Without prices: {found.trouble}"] if found.trouble else []
    if found.hours:
        notes.append(f"The hours of a run are from {found.hours_from}.")
    else:
        notes.append("How long a run takes is not known: give --hours, or set maxRunHours.")
    notes.append("A month forgotten: the stack is up, its training has ended, nobody sends requests.")
    if not found.trouble:
        missing: dict[str, None] = {
            f"No price for {line.quantity.what} ({line.quantity.key}): {line.price.source}.": None
            for line in found.lines
            if line.price.dollars is None
        }
        notes += missing
        notes.append("List prices, without free amounts, discounts, taxes and what is billed by use.")
    return notes


def _as_json(planned: StackPlan, found: Estimate) -> dict[str, Any]:
    columns = ("per_hour", "per_run", "per_month")
    return {
        "stack": planned.stack,
        "region": planned.region,
        "currency": "USD",
        "hours": found.hours,
        "trouble": found.trouble,
        "lines": [
            {
                **asdict(line.quantity),
                "price": line.price.dollars,
                "source": line.price.source,
                **{column: getattr(line, column) for column in columns},
            }
            for line in found.lines
        ],
        "by_use": [
            {
                **{name: getattr(used, name) for name in ("key", "what", "unit")},
                "price": price.dollars,
                "source": price.source,
            }
            for used, price in found.used
        ],
        "totals": {
            column: {"dollars": dollars, "lines_without_price": without}
            for column in columns
            for dollars, without in [found.total(column)]
        },
    }
