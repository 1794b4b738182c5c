"""What a stack costs and how long its `up` takes: computed from its plan, for its page and for README.md."""

import textwrap
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from cloud.cloudbuild import BUILD
from documentation.parts import table
from engine.configuration import configuration
from engine.plan import Plan
from operations.cost import Estimate, listed_estimate, reserved
from operations.plan import StackPlan
from operations.prices import list_prices
from rehearsal.schedule import phases

_ON_A_PAGE: Final = "[list prices](../operations.md#list-prices)"
COLUMNS: Final = ("`up`, minutes", "dollars an hour", "dollars a run", "dollars a month forgotten")


def estimate(stack: str, plan: Plan) -> Estimate:
    """A stack's estimate by list prices, for a run of its recipe."""
    plain = configuration(stack, {}).plain
    planned = StackPlan(
        stack=stack,
        project=str(plain["gcp:project"]),
        region=str(plain["gcp:region"]),
        configuration=plain,
        resources=tuple(sorted(plan.resources, key=lambda each: each.urn)),
    )
    run = _runs().get(str(planned.setting("scenario")))
    found = listed_estimate(planned, run["minutes"] / 60 if run else None)
    # The most that a run may take is no run of the recipe.
    return found if run else replace(found, hours=None)


def minutes(plan: Plan) -> tuple[float, float, float]:
    """Minutes of the first `up`, of one whose image exists, and of `destroy`."""
    up, destroy = phases(plan.resources)
    # Nothing takes time that no platform has.
    built = [replace(each, type="image:") if each.type == BUILD.type else each for each in plan.resources]
    return up.minutes, phases(built)[0].minutes, destroy.minutes


def row(stack: str, plan: Plan) -> list[str]:
    """A stack's cells in the table of README.md, under `COLUMNS`."""
    found = estimate(stack, plan)
    run = _per_run(found)
    return [f"{minutes(plan)[0]:.0f}", _amount(found, "per_hour"), run, _amount(found, "per_month")]


def section(scenario: str, plan: Plan) -> str:
    """What the page of a scenario says of dollars and minutes."""
    found = estimate(scenario, plan)
    first, next_one, destroy = minutes(plan)
    lines = [
        [
            line.what,
            f"{line.most:.4g}",
            line.unit,
            f"{line.price:g}" if line.price is not None else "not known",
            f"{line.listed.day}, {line.listed.region}" if line.listed else "-",
            _dollars(line.per_hour) if line.per_hour is not None else "not known",
        ]
        for line in found.lines
    ]
    totals = [["an hour in which everything runs", _amount(found, "per_hour")]]
    if found.has_runs:
        totals.append([_a_run(scenario), _per_run(found)])
    totals.append(["a month forgotten: it is up, nothing trains, nobody asks", _amount(found, "per_month")])
    notes = (
        f"Computed from the plan of the shipped stack file and {_ON_A_PAGE}, which are not those of your "
        "account. Other regions differ. What is billed by use is not in it, nor are free amounts, discounts "
        "and taxes. "
    )
    if (dollars := reserved(found)) is not None:
        notes += (
            "A reservation is billed by its contract, used or not, and its price is not known here. On "
            f"demand the same machines would cost {_dollars(dollars)} an hour. "
        )
    times = (
        f"`up` takes {first:.1f} minutes with the image's first build and {next_one:.1f} once it exists, "
        f"`destroy` {destroy:.1f}. They are computed along the critical path from the "
        "[durations](../rehearsal.md) in `cloud/`, most of which are guesses: an order of magnitude."
    )
    return "\n".join(
        [
            table("", "dollars", rows=totals),
            *textwrap.wrap(notes, 118, break_on_hyphens=False),
            "",
            table("what", "in an hour", "unit", "price", "price of", "per hour", rows=lines),
            *textwrap.wrap(times, 118, break_on_hyphens=False),
            "",
        ]
    )


def prices() -> str:
    """Every list price with its day, region and source."""
    rows = [
        [f"`{key}`", f"{each.dollars:g}", each.region, str(each.day), each.source]
        for key, each in list_prices().items()
    ]
    return table("key", "dollars", "region", "read", "where", rows=rows)


@cache
def _runs() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("runs.yaml").read_text())


def _a_run(scenario: str) -> str:
    """What a run of a scenario's recipe is, for the table of its page."""
    run = _runs().get(scenario)
    if not run:
        return "a run: nobody has said how long it takes; by the hour as above"
    return f"a run of {run['minutes']:g} minutes ({run['source']}), without the wait for machines"


def _per_run(found: Estimate) -> str:
    if not found.has_runs:
        return "no runs"
    return _amount(found, "per_run") if found.hours else "not known"


def _amount(found: Estimate, column: str) -> str:
    """A column's dollars, what has no price said."""
    without = [line for line in found.lines if getattr(line, column) is None]
    others = [line for line in without if not line.key.endswith(".reservation")]
    text = ("over " if others else "") + _dollars(found.totals[column]["dollars"])
    hours = {"per_hour": 1.0, "per_run": found.hours or 0.0}.get(column)
    on_demand = reserved(found)
    if on_demand is None:
        return text
    return f"{text} and the reservation" + (f" ({_dollars(on_demand * hours)})" if hours else "")


def _dollars(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 100 else f"{amount:,.0f}"
