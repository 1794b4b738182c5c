"""A list of capacities in `cost` and `preflight`: each capacity counts, and one at a time."""

from datetime import UTC, datetime, timedelta

import pytest

from operations.checks.quotas import needs_of
from operations.cost.machines import machines_of
from operations.cost.quantities import quantities, quantities_instead
from operations.findings import Level
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject
from tests.operations.planned import planned

LIST = (
    'capacity.type=["reservation", "flexStart", "spot"]',
    "capacity.reservation=my-reservation",
    "capacity.zone=us-central1-b",
)


@pytest.fixture(params=["a4-ray"])
def stack(request: pytest.FixtureRequest) -> str:
    """A scenario whose nodes are requested together, from a list of capacities."""
    return request.param


@pytest.mark.parametrize(
    ("with_a_list", "settings", "most"), [("a4-ray", LIST, 2), ("a4-accelerate", LIST[:2], 1)]
)
def test_the_machines_with_a_list_nodes_and_of_a_single_one_are_those_of_each_capacity(
    with_a_list: str, settings: tuple[str, ...], most: int
) -> None:
    machines = [
        (machine.order, str(machine.capacity), machine.most, machine.type_name)
        for machine in machines_of(planned(with_a_list, *settings))
    ]
    kinds = enumerate(["reservation", "flexStart", "spot"])
    assert machines == [(number, kind, most, "a4-highgpu-8g") for number, kind in kinds]


def test_the_first_capacity_is_in_the_sum_and_the_others_are_priced_beside_it(stack: str) -> None:
    plan = planned(stack, *LIST)
    assert {item.key: item.most for item in quantities(plan) if "b200." in item.key} == {
        "nvidia-b200.reservation": 16
    }
    assert {item.key: item.most for item in quantities_instead(plan) if "b200." in item.key} == {
        "nvidia-b200.flexStart": 16,
        "nvidia-b200.spot": 16,
    }


def test_a_quota_has_room_for_one_capacity_at_a_time(stack: str) -> None:
    needs = {str(quota): need for quota, need in needs_of(planned(stack, *LIST)).items()}
    # Flex-start and spot take the same quota, and never both.
    assert needs["compute.googleapis.com/preemptible_nvidia_b200_gpus"] == 16


def test_preflight_looks_at_the_reservation_and_at_the_quota_of_the_others(
    stack: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(stack, *LIST)
    (reservation,) = check(plan, "reservation")
    assert "my-reservation" in reservation.what
    assert any("preemptible_nvidia_b200_gpus" in finding.what for finding in check(plan, "quotas"))


def test_a_reservation_without_room_is_no_problem_if_another_capacity_is_tried_then(
    stack: str, good: GoodProject, check: Check
) -> None:
    for settings, level in ((LIST, Level.WARNING), (LIST[1:2], Level.PROBLEM)):
        plan = good.plan(stack, *settings)
        good.reservation(count=2, used=1)
        (finding,) = check(plan, "reservation")
        assert finding.level is level
        assert finding.what.endswith("then flexStart or spot is tried") == (level is Level.WARNING)


def test_a_quota_that_only_some_capacities_take_is_no_problem(
    stack: str, good: GoodProject, check: Check
) -> None:
    for settings, level in ((LIST, Level.WARNING), (["capacity.type=spot"], Level.PROBLEM)):
        plan = good.plan(stack, *settings)
        good.quotas(preemptible_nvidia_b200_gpus=8)
        (finding,) = [item for item in check(plan, "quotas") if "preemptible_nvidia_b200" in item.what]
        assert finding.level is level


def test_a_reservation_that_begins_later_is_said_to_begin_then(
    stack: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(stack, *LIST[1:2])
    booked = {
        "name": "my-reservation",
        "status": {"procurementStatus": "COMMITTED"},
        "timeWindow": {"startTime": (datetime.now(UTC) + timedelta(days=3, hours=1)).isoformat()},
    }
    good.server.plant("compute.v1", "compute.reservations.aggregatedList", {"items": {}})
    items = {"zones/us-central1-b": {"futureReservations": [booked]}}
    good.server.plant("compute.v1", "compute.futureReservations.aggregatedList", {"items": items})
    (finding,) = check(plan, "reservation")
    assert finding.level is Level.PROBLEM
    assert finding.what.startswith("reservation my-reservation starts in 3 days, at 2")
