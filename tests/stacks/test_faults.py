"""An `up` that fails anywhere is mended by the next one, and destroy still leaves nothing."""

import pytest

from rehearsal import Rehearsal, RehearsalError
from tests import inventory

RESOURCES = [
    (stack, row["name"])
    for stack in sorted(path.stem for path in inventory.FOLDER.glob("*.yaml"))
    for row in inventory.written(stack)
    if not row["type"].startswith(("llm-stacks:components:", "pulumi:"))
]


@pytest.mark.parametrize(("stack", "name"), RESOURCES, ids=[f"{stack}/{name}" for stack, name in RESOURCES])
def test_a_failed_creation_is_made_good_by_the_next_up(stack: str, name: str) -> None:
    with Rehearsal(stack) as rehearsal:
        with pytest.raises(RehearsalError, match=name):
            rehearsal.up(fail_at=name)
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        rehearsal.destroy()
        assert rehearsal.world.items == []


@pytest.mark.parametrize("name", ["a4-ray-cluster", "a4-ray-ray-job"])
def test_destroy_cleans_up_after_a_failed_up(name: str) -> None:
    with Rehearsal("a4-ray") as rehearsal:
        with pytest.raises(RehearsalError, match=name):
            rehearsal.up(fail_at=name)
        rehearsal.destroy()
        assert rehearsal.world.items == []
