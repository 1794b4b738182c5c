"""Every stack's plan is the reviewed one."""

import pytest

from engine.project import known_stacks
from tests import inventory, plans

STACKS = sorted(path.stem for path in inventory.FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("stack", STACKS)
def test_the_plan_is_the_reviewed_one(stack: str) -> None:
    planned = inventory.inventory(plans.shipped(stack))
    assert planned == inventory.written(stack), "an intended change is written with `make inventory`"


def test_every_stack_has_an_inventory() -> None:
    assert known_stacks() == STACKS
