"""Costs and minutes of a stack, computed from its plan, for its page and for README.md."""

import textwrap
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from cloud.prices import list_prices
from cloud.services.cloudbuild import BUILD
from docs_generator.parts import table
from engine.configuration import configuration
from engine.plan import Plan
from operations.cost.command import Estimate, listed_estimate, reserved
from operations.plan import StackPlan
from rehearsal.schedule import phases

_ON_A_PAGE: Final = "[list prices](../operations.md#list-prices)"
COLUMNS: Final = ("`up`, minutes", "dollars an hour", "dollars a run", "dollars a month forgotten")


def estimate(stack: str, plan: Plan) -> Estimate:
    """The estimate of a stack with list prices, for a run of its shipped recipe."""
    plain = configuration(stack, {}).plain
    planned = StackPlan(
        stack=stack,
        project=str(plain["gcp:project"]),
        region=str(plain["gcp:region"]),
        configuration=plain,
        resources=tuple(sorted(plan.resources, key=lambda resource: resource.urn)),
    )
    run = _runs().get(str(planned.setting("scenario")))
    if run:
        return listed_estimate(planned, run["minutes"] / 60)
    # Without hours the estimate falls back to `maxRunHours`, which is a limit and not the length of a run.
    return replace(listed_estimate(planned, None), hours=None)


def minutes(plan: Plan) -> tuple[float, float, float]:
    """Minutes of the first `up`, of an `up` whose image exists already, and of `destroy`."""
    up, destroy = phases(plan.resources)
    # A resource of an unknown platform takes no time, so this leaves out the build.
    without_build = [
        replace(resource, type="image:") if resource.type == BUILD.type else resource
        for resource in plan.resources
    ]
    return up.minutes, phases(without_build)[0].minutes, destroy.minutes


def _builds_an_image(plan: Plan) -> bool:
    return any(resource.type == BUILD.type for resource in plan.resources)


def row(stack: str, plan: Plan) -> list[str]:
    """The cells of a stack in the table of README.md, under `COLUMNS`."""
    costs = estimate(stack, plan)
    hour, month = _amount(costs, "per_hour"), _amount(costs, "per_month")
    return [f"{minutes(plan)[0]:.0f}", hour, _per_run(costs), month]


def section(scenario: str, plan: Plan) -> str:
    """The section about dollars and minutes on the page of a scenario."""
    costs = estimate(scenario, plan)
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
        for line in costs.lines
    ]
    totals = [["an hour in which everything runs", _amount(costs, "per_hour")]]
    if costs.has_runs:
        totals.append([_run_title(scenario), _per_run(costs)])
    forgotten = "a month forgotten: the stack is up, nothing trains, nobody sends requests"
    totals.append([forgotten, _amount(costs, "per_month")])
    notes = (
        f"Computed from the plan of the shipped stack file with {_ON_A_PAGE}. The prices of your account and "
        "of other regions may differ. Charges by usage, free amounts, discounts and taxes are not included. "
    )
    if (dollars := reserved(costs)) is not None:
        notes += (
            "A reservation is billed by its contract, used or not, and its price is not known here. On "
            f"demand the same machines would cost {_dollars(dollars)} an hour. "
        )
    up = f"`up` takes {first:.1f} minutes"
    if _builds_an_image(plan):
        up += f" with the first build of the image, and {next_one:.1f} minutes once the image exists"
    times = (
        f"{up}. `destroy` takes {destroy:.1f} minutes. The figures add up the "
        "[durations](../rehearsal.md) in `cloud/` along the critical path. Most durations are guesses, so "
        "these are orders of magnitude."
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
    """The table of all list prices, with day, region and source."""
    rows = [
        [f"`{key}`", f"{price.dollars:g}", price.region, str(price.day), price.source]
        for key, price in list_prices().items()
    ]
    return table("key", "dollars", "region", "read", "where", rows=rows)


@cache
def _runs() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("runs.yaml").read_text())


def _run_title(scenario: str) -> str:
    """The row title for a run of a scenario's recipe in the table of its page."""
    run = _runs().get(scenario)
    if not run:
        return "a run: no source says how long it takes, see the hour above"
    return f"a run of {run['minutes']:g} minutes ({run['source']}), without the wait for machines"


def _per_run(costs: Estimate) -> str:
    """The dollars of a run in words."""
    if not costs.has_runs:
        return "no runs"
    return _amount(costs, "per_run") if costs.hours else "not known"


def _amount(costs: Estimate, column: str) -> str:
    """The dollars of a column, and the parts without a known price in words."""
    unpriced = [line for line in costs.lines if getattr(line, column) is None]
    text = _dollars(costs.totals[column]["dollars"])
    if any(not line.key.endswith(".reservation") for line in unpriced):
        text = f"over {text}"
    on_demand = reserved(costs)
    if on_demand is None:
        return text
    hours = {"per_hour": 1.0, "per_run": costs.hours}.get(column)
    at_demand_price = f" ({_dollars(on_demand * hours)})" if hours else ""
    return f"{text} and the reservation{at_demand_price}"


def _dollars(amount: float) -> str:
    return f"{amount:,.2f}" if amount < 100 else f"{amount:,.0f}"
