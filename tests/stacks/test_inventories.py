"""Every stack's plan is the reviewed one."""

from pathlib import Path

import pytest

from rehearsal import Rehearsal
from tests import inventory

ROOT = Path(__file__).parent.parent.parent
STACKS = sorted(path.stem for path in inventory.FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("stack", STACKS)
def test_the_plan_is_the_reviewed_one(stack: str) -> None:
    with Rehearsal(stack) as rehearsal:
        planned = inventory.inventory(rehearsal.preview())
    assert planned == inventory.written(stack), "an intended change is written with `make inventory`"


def test_every_rehearsed_stack_has_an_inventory() -> None:
    (line,) = [each for each in (ROOT / "Makefile").read_text().splitlines() if each.startswith("STACKS :=")]
    assert line.removeprefix("STACKS :=").split() == STACKS
