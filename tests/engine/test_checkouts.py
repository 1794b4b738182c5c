"""Modules of another checkout come and go."""

import importlib
import sys
from pathlib import Path

import stacks
from engine import checkouts


def test_modules_of_another_checkout_are_there_for_the_context_and_leave_those_of_this_one_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "__init__.py").write_text("WHERE = 'there'\n")
    with checkouts.using(tmp_path):
        assert getattr(importlib.import_module("stacks"), "WHERE", "") == "there"
    assert sys.modules["stacks"] is stacks
    assert str(tmp_path) not in sys.path


def test_the_readers_of_recipes_are_those_of_the_checkout_too(tmp_path: Path) -> None:
    """`make preview` compares with a target whose recipe may have other fields."""
    for package in ("workloads", "workloads/finetune"):
        (tmp_path / package).mkdir()
    (tmp_path / "workloads" / "__init__.py").write_text(
        "import sys\nfrom pathlib import Path\n\nsys.path.append(str(Path(__file__).parent))\n"
    )
    (tmp_path / "workloads" / "finetune" / "__init__.py").write_text("WHERE = 'there'\n")
    ours = importlib.import_module("workloads.finetune.settings.recipe")
    with checkouts.using(tmp_path):
        importlib.import_module("workloads")
        assert getattr(importlib.import_module("finetune"), "WHERE", "") == "there"
    assert importlib.import_module("workloads.finetune.settings.recipe") is ours
    assert not hasattr(importlib.import_module("finetune"), "WHERE")
