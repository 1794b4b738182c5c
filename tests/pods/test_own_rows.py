"""The example with rows of one's own, in a stack that was never up, and a second run beside the first."""

import hashlib
from pathlib import Path

import pytest

from rehearsal.running_pods.stage import Stage
from tests.pods.conftest import Play

RECIPE = "examples/own-data/my-rows.yaml"


def runs(stage: Stage) -> set[Path]:
    """The folders of all finished runs in the buckets."""
    return {file.parent for file in stage.around.buckets.folder.rglob("COMPLETE.json") if is_run(file.parent)}


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's, and not that of a checkpoint."""
    return (folder / "run.json").exists()


def content(folder: Path) -> dict[str, str]:
    """A digest of every file in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def ends_well(stage: Stage, run: str) -> bool:
    """Waits for the end of a run. The word after `Complete` differs between Jobs and Ray jobs."""
    return stage.waits_for(f"the end of the {run} run", stage.outcome).startswith("Complete")


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["a4-accelerate", "a4-ray"])
def test_the_first_up_trains_the_rows_and_another_setting_leaves_it_alone(play: Play, stack: str) -> None:
    stage = play(stack, recipe=RECIPE)
    stage.stack.up()
    assert ends_well(stage, "first")
    (first,) = runs(stage)
    assert (first / "model" / "config.json").exists()
    before = content(first)

    stage.stack.configure({"recipe": RECIPE, "recipeSet": '{"lora": {"alpha": 64}}'})
    stage.stack.up()
    assert ends_well(stage, "second")
    (second,) = runs(stage) - {first}
    assert content(first) == before
    first_losses, second_losses = stage.losses(first.name), stage.losses(second.name)
    assert list(first_losses) == list(second_losses)
    assert first_losses[1] == pytest.approx(second_losses[1])
    assert first_losses != second_losses
