"""What a stack that is up costs, from its state and Google's public list prices."""

from dataclasses import dataclass

from cloud.prices import HOURS_PER_MONTH, list_prices
from engine.plan import Planned
from operations.cost.quantities import quantities
from operations.plan import StackPlan
from operations.state import Resource, State


@dataclass(frozen=True, kw_only=True)
class StandingCost:
    """Dollars of a stack that is up, by list prices.

    Args:
        is_whole: Whether every part has a list price. A reservation has none.
        per_hour: An hour in which everything runs.
        per_training_hour: What an hour of training adds, its machines.
        per_idle_month: A month in which nothing trains and nobody sends requests.
    """

    is_whole: bool
    per_hour: float
    per_training_hour: float
    per_idle_month: float

    @property
    def hour(self) -> str:
        """The dollars of an hour in words."""
        return f"{self._least}{self.per_hour:,.2f} dollars an hour"

    @property
    def idle_month(self) -> str:
        """The dollars of a month in which the stack is forgotten, in words."""
        return f"{self._least}{self.per_idle_month:,.2f} dollars a month while nothing runs"

    def run(self, trained_seconds: float) -> str:
        """The dollars of a run's machines so far, in words."""
        return f"run {self._least}{self.per_training_hour * trained_seconds / 3600:,.2f} dollars so far"

    @property
    def _least(self) -> str:
        return "" if self.is_whole else "over "


def standing_cost(stack: str, state: State) -> StandingCost | None:
    """The cost of a stack that is up, None if nothing of it is billed by time."""
    known = list_prices()
    billed = quantities(_plan(stack, state))
    if not billed:
        return None
    priced = [(item, known[item.key].dollars) for item in billed if item.key in known]
    return StandingCost(
        is_whole=len(priced) == len(billed),
        per_hour=sum(item.most * dollars for item, dollars in priced),
        per_training_hour=sum(item.run * dollars for item, dollars in priced),
        per_idle_month=HOURS_PER_MONTH * sum(item.kept * dollars for item, dollars in priced),
    )


def _plan(stack: str, state: State) -> StackPlan:
    """The plan that a state is the result of, as far as quantities need it."""
    return StackPlan(
        stack=stack,
        project=state.project,
        region="",
        configuration={},
        resources=tuple(_planned(resource) for resource in state.resources),
    )


def _planned(resource: Resource) -> Planned:
    return Planned(
        type=resource.type,
        name=resource.name,
        urn="",
        parent="",
        op="same",
        inputs=dict(resource.inputs),
        dependencies=(),
    )
