"""Several TPU slices of one training: each is a node pool, and all of them count together."""

import pytest

from operations.capacity.rows import wanted_machines
from operations.checks.quotas import needs_of
from operations.cost.quantities import quantities
from operations.findings import Level
from operations.plan import StackPlan
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject
from tests.operations.planned import planned
from tests.plans import stacks_with

STACK = stacks_with("slices")[0]
HOSTS, CHIPS = 4, 16


def counts(plan: StackPlan) -> dict[str, float]:
    (need,) = wanted_machines(plan, (), None)
    quotas = {quota.metric: needed for quota, needed in needs_of(plan).items()}
    chips = {item.unit: item.most for item in quantities(plan)}
    return {
        "machines asked about": need.nodes,
        "quota": quotas["tpus_per_tpu_family"],
        "paid an hour": chips["chip-hour"],
    }


@pytest.mark.parametrize("slices", [1, 2])
def test_machines_quota_and_price_are_those_of_all_slices(slices: int) -> None:
    assert counts(planned(STACK, f"slices={slices}")) == {
        "machines asked about": HOSTS * slices,
        "quota": CHIPS * slices,
        "paid an hour": CHIPS * slices,
    }


@pytest.mark.parametrize(("free", "level"), [(2 * HOSTS, Level.FINE), (2 * HOSTS - 1, Level.PROBLEM)])
def test_a_reservation_has_room_for_all_slices_or_for_none(
    free: int, level: Level, good: GoodProject, check: Check
) -> None:
    reserving = ("capacity.type=reservation", "capacity.reservation=mine", "zone=us-east5-b", "slices=2")
    plan = good.plan(STACK, *reserving)
    good.reservation(count=free, used=0)
    (finding,) = check(plan, "reservation")
    assert finding.level is level
    assert f"{free} " in finding.what
