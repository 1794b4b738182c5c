"""A merge request's effect on a running stack, by the real engine and without a cloud."""

import shutil
import sys
from pathlib import Path

import pytest

from engine.project import ROOT
from operations.previews import rehearsed
from operations.previews.changes import Kind, StackPreview
from operations.previews.redaction import Redaction
from tests.checkout import copy_of_program

STACK = "l4-kueue"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A checkout of the program, to be made different."""
    return copy_of_program(tmp_path)


def preview(target: Path) -> StackPreview:
    return rehearsed.preview(STACK, target, ROOT, Redaction(), lambda text: None)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_same_program_changes_nothing(target: Path) -> None:
    found = preview(target)
    assert found.failure == ""
    assert found.changes == ()
    assert found.unchanged > 30


def test_what_the_branch_does_is_told_with_what_it_takes_along(target: Path) -> None:
    (target / f"Pulumi.{STACK}.yaml").open("a").write("  llm-stacks:clusterName: of-the-target\n")
    edit(target / "stacks" / "l4_kueue.py", '"deny-ingress", ', "")
    edit(target / "components" / "node_pool.py", '"pd-balanced"', '"pd-ssd"')
    found = preview(target)
    assert found.failure == ""
    replaced = {change.name: change for change in found.of(Kind.REPLACE)}
    assert replaced["l4-kueue-cluster"].properties[0].forces
    assert replaced["l4-kueue-cluster"].properties[0].old == "of-the-target"
    assert "its provider is replaced" in replaced["l4-kueue-serving"].reason
    assert [change.name for change in found.of(Kind.CREATE)] == ["l4-kueue-deny-ingress"]
    paths = {each.path: (each.old, each.new) for each in replaced["l4-kueue-l4-pool"].properties}
    assert paths["nodeConfig.diskType"] == ("pd-ssd", "pd-balanced")


def test_two_rehearsals_tell_the_same(target: Path) -> None:
    (target / f"Pulumi.{STACK}.yaml").unlink()
    one, other = preview(target), preview(target)
    assert one.of(Kind.CREATE)
    assert one == other


def test_a_branch_whose_program_is_refused_has_a_failure_and_no_changes(target: Path, tmp_path: Path) -> None:
    branch = tmp_path / "branch"
    shutil.copytree(target, branch, ignore=shutil.ignore_patterns("branch"))
    edit(branch / f"Pulumi.{STACK}.yaml", "llm-stacks:scenario: l4-kueue", "llm-stacks:scenario: l4-kuee")
    found = rehearsed.preview(STACK, target, branch, Redaction(), lambda text: None)
    assert "scenario: 'l4-kuee' is not one of" in found.failure
    assert found.changes == ()


def test_afterwards_this_checkouts_own_modules_are_loaded(target: Path) -> None:
    import stacks.reader as before

    preview(target)
    import stacks.reader as after

    assert after is before
    assert not [path for path in sys.path if path == str(target)]
    loaded = [module for name, module in sys.modules.items() if name.partition(".")[0] == "components"]
    assert not [module for module in loaded if str(target) in str(getattr(module, "__file__", ""))]
