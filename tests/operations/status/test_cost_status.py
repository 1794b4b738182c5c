"""The dollars of a stack that is up, in its status."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from operations.cost.command import listed_estimate
from operations.cost.quantities import quantities
from operations.cost.standing import standing_cost
from operations.google.clients import Clients
from operations.overview import cost_line
from operations.state import State
from tests.operations.past_stack import PastStack


@pytest.fixture(params=["neutral", "neutral_run"])
def stack(request: pytest.FixtureRequest) -> PastStack:
    return request.getfixturevalue(request.param)


def test_what_is_up_costs_what_its_plan_says(stack: PastStack) -> None:
    assert quantities(stack.plan)
    estimate = listed_estimate(stack.plan, 1.0).totals
    cost = standing_cost("neutral", stack.alive)
    assert cost
    assert cost.per_hour == pytest.approx(estimate["per_hour"]["dollars"])
    assert cost.per_training_hour == pytest.approx(estimate["per_run"]["dollars"])
    assert cost.per_idle_month == pytest.approx(estimate["per_month"]["dollars"])
    assert cost.is_whole == (estimate["per_hour"]["lines_without_price"] == 0)


def test_status_says_the_dollars_of_an_hour_of_an_idle_month_and_of_the_run_so_far(
    neutral: PastStack, clients: Clients, metrics: Callable[..., None]
) -> None:
    metrics(b"", time=b'{"seconds": 7200}')
    (line,) = cost_line("neutral", neutral.alive, clients)
    cost = standing_cost("neutral", neutral.alive)
    assert cost and cost.per_training_hour
    assert line.state == cost.hour
    assert line.detail == f"{cost.run(7200)}, {cost.idle_month}"
    assert f"{2 * cost.per_training_hour:,.2f} dollars so far" in line.detail


@pytest.mark.parametrize("time", [b"{", b"[]", b'{"seconds": "x"}', b'{"seconds": NaN}', b'{"seconds": -1}'])
def test_an_odd_time_leaves_the_run_out_and_not_the_line(
    time: bytes, neutral: PastStack, clients: Clients, metrics: Callable[..., None]
) -> None:
    metrics(b"", time=time)
    (line,) = cost_line("neutral", neutral.alive, clients)
    assert "so far" not in line.detail and "a month" in line.detail


def test_a_stack_of_which_nothing_is_billed_has_no_line(neutral: PastStack, clients: Clients) -> None:
    nothing = replace(neutral.alive, resources=())
    assert not list(cost_line("neutral", nothing, clients))
    assert standing_cost("neutral", State()) is None
