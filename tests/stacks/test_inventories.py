"""Every stack's plan is the reviewed one."""

from pathlib import Path

import pytest

from tests import inventory, plans

ROOT = Path(__file__).parent.parent.parent
STACKS = sorted(path.stem for path in inventory.FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("stack", STACKS)
def test_the_plan_is_the_reviewed_one(stack: str) -> None:
    planned = inventory.inventory(plans.shipped(stack))
    assert planned == inventory.written(stack), "an intended change is written with `make inventory`"


def test_every_rehearsed_stack_has_an_inventory() -> None:
    (line,) = [each for each in (ROOT / "Makefile").read_text().splitlines() if each.startswith("STACKS :=")]
    assert line.removeprefix("STACKS :=").split() == STACKS
