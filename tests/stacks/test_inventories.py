"""Every stack's plan is the reviewed one."""

import dataclasses
from pathlib import Path

import pytest

from engine.project import known_stacks
from tests import inventory, plans
from tests.checkout import copy_of_program


@pytest.mark.parametrize("stack", known_stacks())
def test_the_plan_is_the_reviewed_one(stack: str) -> None:
    planned = inventory.inventory(plans.shipped(stack))
    differences = "\n".join(inventory.differences(inventory.written(stack), planned))
    assert not differences, (
        f"{differences}\n`.venv/bin/python -m tests.inventory {stack} --changes` lists every changed input, "
        "and `make inventory` writes an intended change"
    )


def test_there_is_no_inventory_without_a_stack() -> None:
    assert sorted(path.stem for path in inventory.FOLDER.glob("*.yaml")) == known_stacks()


def test_a_difference_says_the_resource_the_path_and_both_values() -> None:
    pool, bucket = "gcp:container/nodePool:NodePool pool", "gcp:storage/bucket:Bucket bucket"
    before = {pool: {"inputs": {"nodeCount": 3, "zones": ["a"]}}, bucket: {"inputs": {"name": "mine"}}}
    after = {
        pool: {"inputs": {"nodeCount": 9, "zones": ["a"]}},
        "gcp:storage/bucket:Bucket another": {"inputs": {"name": "mine"}},
    }
    assert list(inventory.differences(before, after)) == [
        f"{pool}: inputs.nodeCount: 3 -> 9",
        "gcp:storage/bucket:Bucket another: is new",
        f"{bucket}: is no longer planned",
    ]


def test_a_digest_covers_the_inputs_that_are_not_in_plain() -> None:
    plan = plans.shipped("dev")
    nat = plans.only(plan, ":RouterNat")
    other = dataclasses.replace(nat, inputs={**nat.inputs, "enableDynamicPortAllocation": False})
    before, after = (
        inventory.inventory(dataclasses.replace(plan, resources=(resource,))) for resource in (nat, other)
    )
    (line,) = inventory.differences(before, after)
    assert line.startswith(f"{nat.type} {nat.name}: digest: ")


def test_the_changed_inputs_are_listed_with_both_values(tmp_path: Path) -> None:
    component = copy_of_program(tmp_path) / "components/network/network.py"
    text = component.read_text()
    assert "10.0.0.0/20" in text
    component.write_text(text.replace("10.0.0.0/20", "10.1.0.0/20"))
    (line,) = inventory.changed_inputs("dev", tmp_path)
    subnet = "gcp:compute/subnetwork:Subnetwork cloudrun-vllm-subnet"
    assert line == f"{subnet}: ipCidrRange: 10.1.0.0/20 -> 10.0.0.0/20"
