"""`cost --budget`: the hours that a sum pays for, and when there is no answer."""

import json
from pathlib import Path

import pytest

from components.cluster.capacity import FLEX_START_MAX_HOURS
from operations.cost.budget import budget
from operations.cost.prices import Price
from operations.cost.quantities import quantities
from operations.errors import OperationError
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.conftest import Command
from tests.operations.google_server import GoogleServer
from tests.operations.planned import planned, planned_once
from tests.operations.samples import sell

LIST = (
    'capacity.type=["reservation", "onDemand", "spot"]',
    "capacity.reservation=mine",
    "capacity.zone=us-central1-b",
)


def dollar(_key: str, _unit: str) -> Price:
    return Price(1.0, "a dollar")


def in_an_hour(stack: str) -> float:
    return sum(item.run for item in quantities(planned(stack)))


def test_hours_are_whole_and_never_cost_more_than_the_sum() -> None:
    rate = in_an_hour(NEUTRAL)
    assert budget(planned(NEUTRAL), dollar, 3 * rate + 0.01).hours == 3
    assert budget(planned(NEUTRAL), dollar, 4 * rate - 0.01).hours == 3


def test_the_command_sets_the_smaller_of_the_hours_and_the_limit() -> None:
    rate = in_an_hour(NEUTRAL)
    assert budget(planned(NEUTRAL), dollar, 9 * rate).command == (
        f"pulumi config set maxRunHours 9 --stack {NEUTRAL}"
    )
    limited = planned(NEUTRAL, "maxRunHours=5")
    assert budget(limited, dollar, 9 * rate).command == ""
    assert "maxRunHours is 5, and the smaller number counts" in " ".join(
        budget(limited, dollar, 9 * rate).notes()
    )
    assert budget(limited, dollar, 4 * rate + 1).command.endswith(f"maxRunHours 4 --stack {NEUTRAL}")


@pytest.mark.parametrize("stack", [pytest.param("a4-ray", id="a4-ray")])
def test_the_dearest_capacity_of_a_list_decides(stack: str) -> None:
    dollars = {"nvidia-b200.reservation": 1.0, "nvidia-b200.onDemand": 16.0, "nvidia-b200.spot": 5.0}
    paid = budget(planned(stack, *LIST), lambda key, _: Price(dollars.get(key, 0.0), ""), 16 * 16 * 4)
    assert (paid.hours, paid.capacity, paid.per_hour) == (4, "onDemand", 256.0)


@pytest.mark.parametrize("stack", [pytest.param("l4-kueue", id="l4-kueue")])
def test_node_pools_count_together_because_servers_and_a_training_may_be_on_two(stack: str) -> None:
    of_both = ('capacity.type=["flexStart", "spot"]', "capacity.minutes=[20, 20]", "servingReplicas=0")
    prices = {"nvidia-l4.flexStart": 2.0, "nvidia-l4.spot": 1.0}
    paid = budget(planned(stack, *of_both), lambda key, _: Price(prices.get(key, 0.0), ""), 100)
    assert paid.per_hour == 6 * 2.0 + 6 * 1.0


@pytest.mark.parametrize("stack", [pytest.param("a4-ray", id="a4-ray")])
def test_a_reservation_has_no_price_of_its_own_unless_one_is_given(stack: str) -> None:
    def prices(key: str, _unit: str) -> Price:
        return Price(None if key.endswith(".reservation") else 1.0, "")

    with pytest.raises(OperationError, match="paid whether a run uses them or not"):
        budget(planned(stack), prices, 1000)


@pytest.mark.parametrize(
    ("stack", "dollars", "message"),
    [
        (NEUTRAL, 1.0, r"an hour of neutral costs [\d.,]+ dollars; give \d+ or more"),
        ("serve", 100.0, "stack serve trains nothing"),
    ],
)
def test_a_sum_that_pays_for_nothing_is_refused(stack: str, dollars: float, message: str) -> None:
    with pytest.raises(OperationError, match=message):
        budget(planned(stack), dollar, dollars)


def test_a_part_without_a_price_is_refused_because_the_hours_would_be_too_many() -> None:
    def prices(key: str, _unit: str) -> Price:
        return Price(None if key == "g2.memory.onDemand" else 1.0, "")

    with pytest.raises(
        OperationError, match=r"no price for g2.memory.onDemand, so the hours would be too many"
    ):
        budget(planned(NEUTRAL), prices, 1000)


def test_prices_of_nothing_are_no_budget() -> None:
    with pytest.raises(OperationError, match="nothing that runs while it trains has a price"):
        budget(planned(NEUTRAL), lambda *_: Price(0.0, ""), 1000)


def test_the_command_prints_hours_what_is_left_out_and_what_to_set(
    google: GoogleServer, command: Command
) -> None:
    sell(google, planned(NEUTRAL_RUN))
    words = ("cost", "--stack", NEUTRAL_RUN, "--endpoint", google.address, "--budget", "500")
    with planned_once():
        ran, as_json = command(*words), command(*words, "--json")
    out = " ".join(ran.out.split())
    hours = int(500 / in_an_hour(NEUTRAL_RUN))
    assert ran.status == 0
    assert f"500.00 dollars pay for {hours} hours of training" in out
    for left_out in ("the wait for machines", "lost tries", "a preemption", "a month until `pulumi destroy`"):
        assert left_out in out
    assert json.loads(as_json.out)["budget"]["hours"] == hours


def test_a_price_file_gives_the_prices_of_a_budget(
    google: GoogleServer, command: Command, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("".join(f"{item.key}: 2\n" for item in quantities(planned(NEUTRAL))))
    words = ("--endpoint", google.address, "--prices", str(prices), "--budget", str(4 * in_an_hour(NEUTRAL)))
    with planned_once():
        ran = command("cost", "--stack", NEUTRAL, *words)
    assert "pay for 2 hours" in " ".join(ran.out.split())


@pytest.mark.parametrize("number", ["-1", "0", "inf", "nan", "1e999"])
@pytest.mark.parametrize("option", ["budget", "hours"])
def test_a_number_that_is_none_is_refused(option: str, number: str, command: Command) -> None:
    refused = command("cost", "--stack", NEUTRAL, f"--{option}={number}")
    assert refused.status == 2
    assert f"--{option} {float(number)}: give a number above 0" in refused.err


@pytest.mark.parametrize("hours", [FLEX_START_MAX_HOURS, FLEX_START_MAX_HOURS + 1, 10**15])
def test_the_command_sets_no_more_than_the_setting_takes(hours: int) -> None:
    paid = budget(planned(NEUTRAL), dollar, hours * in_an_hour(NEUTRAL) + 0.01)
    assert paid.command == f"pulumi config set maxRunHours {FLEX_START_MAX_HOURS} --stack {NEUTRAL}"
