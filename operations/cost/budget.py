"""The hours of training that a sum of dollars pays for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from cloud.prices import HOURS_PER_MONTH
from components.cluster.capacity import ALLOWANCE_HOURS, FLEX_START_MAX_HOURS
from operations.cost.prices import Prices
from operations.cost.quantities import Quantity, quantities_by_capacity
from operations.errors import OperationError
from operations.plan import StackPlan

_RESERVED: Final = ".reservation"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a sum pays for.

    Args:
        dollars: The sum.
        hours: Whole hours of training.
        per_hour: Dollars of an hour of everything that runs while it trains, on the dearest capacity.
        capacity: The dearest capacity of the list. Empty if nothing of the stack has one.
        per_idle_month: Dollars of a month in which the stack is up and nobody uses it.
        limit: Hours of `maxRunHours` now, None if it is not set.
    """

    stack: str
    dollars: float
    hours: int
    per_hour: float
    capacity: str
    per_idle_month: float
    limit: float | None

    @property
    def command(self) -> str:
        """The command that limits a run to the hours. Empty if its limit is not longer already."""
        if self.limit is not None and self.limit <= self.hours:
            return ""
        # The setting takes no more.
        hours = min(self.hours, FLEX_START_MAX_HOURS)
        return f"pulumi config set maxRunHours {hours} --stack {self.stack}"

    def notes(self) -> Iterator[str]:
        """The budget in words, and what it leaves out."""
        where = f" on {self.capacity}, the dearest capacity" if self.capacity else ""
        rate = f"{self.per_hour:,.2f} dollars an hour{where}"
        yield f"{self.dollars:,.2f} dollars pay for {self.hours} hours of training at {rate}:"
        yield (
            f"  {self.command}"
            if self.command
            else (f"  nothing to do: maxRunHours is {self.limit:g}, and the smaller number counts")
        )
        yield (
            "maxRunHours counts the training of all tries together. Not in the budget are the wait for "
            "machines, image pulls, lost tries and idle minutes. Machines get "
            f"{ALLOWANCE_HOURS} hours more for that: up to {ALLOWANCE_HOURS * self.per_hour:,.2f} dollars."
        )
        yield "After a preemption the work since the last checkpoint is paid again."
        yield (
            f"After the run the stack costs {self.per_idle_month:,.2f} dollars a month until `pulumi "
            "destroy`. Prices are of one region and day, and those of spot change daily."
        )


def budget(planned: StackPlan, prices: Prices, dollars: float) -> Budget:
    """The hours that a sum pays for.

    Raises:
        OperationError: When nothing trains, a part has no price, or the sum does not pay for an hour.
    """
    if not planned.has_runs:
        raise OperationError(f"--budget: stack {planned.stack} trains nothing")
    every = quantities_by_capacity(planned)
    rates = {name: _rate(lines, prices, planned.stack) for name, lines in every.items()}
    dearest = max(rates, key=rates.__getitem__)
    per_hour = rates[dearest]
    if not per_hour:
        raise OperationError("--budget: nothing that runs while it trains has a price above 0")
    hours = floor(dollars / per_hour)
    if not hours:
        raise OperationError(
            f"--budget {dollars:g}: an hour of {planned.stack} costs {per_hour:,.2f} dollars; give "
            f"{ceil(per_hour)} or more"
        )
    limit = planned.setting("maxRunHours")
    idle = (item.kept * (prices(item.key, item.unit).dollars or 0.0) for item in every[dearest])
    return Budget(
        stack=planned.stack,
        dollars=dollars,
        hours=hours,
        per_hour=per_hour,
        capacity=dearest if len(rates) > 1 else "",
        per_idle_month=HOURS_PER_MONTH * sum(idle),
        limit=float(limit) if limit else None,
    )


def _rate(lines: Sequence[Quantity], prices: Prices, stack: str) -> float:
    """Dollars of an hour of training."""
    running = [item for item in lines if item.run]
    missing = [item.key for item in running if prices(item.key, item.unit).dollars is None]
    reserved = [key for key in missing if key.endswith(_RESERVED)]
    if reserved:
        raise OperationError(
            f"--budget: the contract of the reservation has the price of {', '.join(reserved)}. Its hours "
            "are paid whether a run uses them or not: give a price file with --prices, 0 to leave them out"
        )
    if missing:
        raise OperationError(
            f"--budget: no price for {', '.join(missing)}, so the hours would be too many: give a price file "
            f"with --prices. `python -m operations cost --stack {stack}` says why there is none"
        )
    return sum(item.run * (prices(item.key, item.unit).dollars or 0.0) for item in running)
