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
