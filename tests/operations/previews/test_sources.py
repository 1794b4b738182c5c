"""A merge request's effect on a running stack, by the real engine and without a cloud."""

from pathlib import Path

import pytest

from engine.project import ROOT
from operations.previews import sources
from operations.previews.changes import Kind
from tests.checkout import copy_of_folder, copy_of_program
from tests.neutral_stacks import NEUTRAL as STACK
from tests.neutral_stacks import put_into


@pytest.fixture(autouse=True)
def branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkout in which the command runs is a copy with the tests' own stack in it."""
    copy = copy_of_program(tmp_path / "branch")
    put_into(copy)
    for name in ("engine", "rehearsal"):
        copy_of_folder(ROOT / name, copy / name)
    for name in ("tools", ".tools"):
        (copy / name).symlink_to(ROOT / name)
    monkeypatch.setattr("operations.plan.ROOT", copy)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A checkout of the program, to be made different."""
    copy = copy_of_program(tmp_path / "target")
    put_into(copy)
    return copy


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_same_program_changes_nothing(target: Path) -> None:
    preview = sources.rehearsed(STACK, target)
    assert preview.failure == ""
    assert preview.changes == ()
    assert preview.unchanged > 30


def test_what_the_branch_does_is_told_with_what_it_takes_along(target: Path) -> None:
    # The region replaces the bucket, which the engine refuses while it is protected.
    region = 'gcp:region: us-east4\n  llm-stacks:forceDestroy: "true"'
    edit(target / f"Pulumi.{STACK}.yaml", "gcp:region: us-central1", region)
    edit(target / "stacks/scenarios/neutral.py", 'trainers={"app": SERVICE},', "")
    edit(target / "cloud" / "machines.py", '"pd-balanced"', '"pd-ssd"')
    preview = sources.rehearsed(STACK, target)
    assert preview.failure == ""
    replaced = {change.name: change for change in preview.of(Kind.REPLACE)}
    (location,) = [change for change in replaced["neutral-cluster"].properties if change.path == "location"]
    assert (location.old, location.new, location.forces) == ("us-east4", "us-central1", True)
    assert "its provider is replaced" in replaced["neutral-serving"].reason
    assert [change.name for change in preview.of(Kind.CREATE)] == [
        "neutral-training-monitoring",
        "neutral-training",
    ]
    paths = {prop.path: (prop.old, prop.new) for prop in replaced["neutral-l4-pool"].properties}
    assert paths["nodeConfig.diskType"] == ("pd-ssd", "pd-balanced")


@pytest.mark.slow
def test_two_rehearsals_tell_the_same(target: Path) -> None:
    (target / f"Pulumi.{STACK}.yaml").unlink()
    one, other = sources.rehearsed(STACK, target), sources.rehearsed(STACK, target)
    assert one.of(Kind.CREATE)
    assert [one.of(kind) for kind in Kind] == [other.of(kind) for kind in Kind]


@pytest.mark.slow
def test_a_program_that_is_rejected_has_a_failure_and_no_changes(target: Path) -> None:
    edit(target / f"Pulumi.{STACK}.yaml", "llm-stacks:scenario: neutral", "llm-stacks:scenario: neutrl")
    preview = sources.rehearsed(STACK, target)
    assert "scenario: 'neutrl' is not one of" in preview.failure
    assert preview.changes == ()
