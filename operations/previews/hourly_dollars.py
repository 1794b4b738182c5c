"""What an hour of a stack costs before and after a change, from a preview's report."""

import json
from collections.abc import Sequence

from engine.errors import EngineError
from engine.plan import Planned, sides
from engine.project import stack_file
from operations.cost.command import Estimate, listed_estimate
from operations.errors import ODD_ANSWER, OperationError
from operations.plan import StackPlan
from operations.previews.changes import HourlyDollars


def hourly_dollars(stack: str, report: str) -> HourlyDollars | None:
    """Dollars at list prices, None if nothing of the stack has a price.

    Args:
        report: What `pulumi preview --json` prints.
    """
    try:
        before, after = (_estimate(stack, resources) for resources in sides(report))
    except (*ODD_ANSWER, json.JSONDecodeError, EngineError, OperationError):
        # A comment must not fail for want of prices.
        return None
    totals = [estimate.totals["per_hour"] for estimate in (before, after)]
    if not any(total["dollars"] for total in totals):
        return None
    return HourlyDollars(
        before=round(totals[0]["dollars"], 2),
        after=round(totals[1]["dollars"], 2),
        partly=any(total["lines_without_price"] for total in totals),
    )


def _estimate(stack: str, resources: Sequence[Planned]) -> Estimate:
    values = stack_file(stack)
    plan = StackPlan(
        stack=stack,
        project=str(values.get("gcp:project", "")),
        region=str(values.get("gcp:region", "")),
        configuration=values,
        resources=tuple(resources),
    )
    return listed_estimate(plan, 1.0)
