"""Every stack's plan is the reviewed one."""

import pytest

from engine.project import known_stacks
from tests import inventory, plans


@pytest.mark.parametrize("stack", known_stacks())
def test_the_plan_is_the_reviewed_one(stack: str) -> None:
    planned = inventory.inventory(plans.shipped(stack))
    assert planned == inventory.written(stack), "an intended change is written with `make inventory`"


def test_there_is_no_inventory_without_a_stack() -> None:
    assert sorted(path.stem for path in inventory.FOLDER.glob("*.yaml")) == known_stacks()
