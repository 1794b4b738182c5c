"""The price that a trainer is told, beside what `cost` says of the same plan."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cloud.prices import list_prices
from operations.cost.machines import cloud_run_of, machines_of, pods_of
from operations.cost.quantities import Quantity, quantities
from operations.plan import StackPlan
from shared.price import VARIABLE
from tests.operations.planned import planned
from tests.plans import mostly_slow, stacks_with

TRAINING = stacks_with("recipe")
ON_SPOT = [stack for stack in TRAINING if stack in stacks_with("capacity.type")]


def prices_in(plan: StackPlan) -> Iterator[tuple[str, int]]:
    """The price in each container that has one, and the accelerators of all pods or tasks like it."""
    for pods in (*pods_of(plan), *cloud_run_of(plan)):
        for container in pods.spec["containers"]:
            variables = [*container.get("env", ()), *container.get("envs", ())]
            for variable in variables:
                if variable["name"] == VARIABLE and pods.accelerators:
                    yield variable["value"], pods.most * pods.accelerators


def by_the_command(plan: StackPlan) -> tuple[list[Quantity], float]:
    """What `cost` counts of the machines that train, and their accelerators."""
    groups = [group for group in machines_of(plan) if group.type and group.type.accelerator]
    if not groups:
        job = [item for item in quantities(plan) if item.key.startswith(("run.job.", "run.gpu."))]
        return [item for item in job if item.run], 1
    machine = groups[0].type
    assert machine and all(group.type == machine for group in groups)
    family = f"{machine.price_family}." if not (machine.model and machine.model.whole_price) else "-"
    own = (machine.accelerator, f"autopilot.premium.{machine.accelerator}", family, "disk.local")
    lines = [item for item in quantities(plan) if item.key.startswith(own)]
    # Other machines of the plan have boot disks too.
    alone = replace(
        plan, resources=tuple(resource for resource in plan.resources if resource.name == groups[0].resource)
    )
    lines += [item for item in quantities(alone) if item.what == "boot disks"]
    return lines, sum(group.most * machine.count for group in groups)


@pytest.mark.parametrize("stack", mostly_slow(TRAINING, quick=stacks_with("topology")))
def test_a_trainer_is_told_what_the_command_says(stack: str) -> None:
    check(planned(stack))


@pytest.mark.parametrize("stack", mostly_slow(ON_SPOT, quick=ON_SPOT[:1]))
def test_on_spot_too(stack: str) -> None:
    check(planned(stack, "capacity.type=spot"))


def check(plan: StackPlan) -> None:
    """Nothing is told where the accelerators have no list price, and `over` where another part has none."""
    lines, accelerators = by_the_command(plan)
    prices = {item.key: list_prices()[item.key].dollars for item in lines if item.key in list_prices()}
    assert lines
    if not any(item.unit in ("GPU-hour", "chip-hour") for item in lines if item.key in prices):
        assert not [*prices_in(plan)]
        return
    ((text, number),) = prices_in(plan)
    hour = sum(item.run * prices.get(item.key, 0) for item in lines) / accelerators * number
    assert text.startswith("over ") == (len(prices) < len(lines))
    assert float(text.removeprefix("over ")) == pytest.approx(hour, abs=1e-3)


def test_with_a_list_of_capacities_nothing_is_told() -> None:
    plan = planned(stacks_with("capacity.minutes")[0], 'capacity.type=["spot", "onDemand"]')
    assert not [*prices_in(plan)]
