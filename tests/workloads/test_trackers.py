"""Where a run reports its figures beside its own metrics.jsonl."""

import os
from pathlib import Path

import pytest
from outcomes import losses

from finetune.__main__ import main
from finetune.settings.recipe import Recipe
from rehearsal.running_pods.tiny import make_recipe


@pytest.fixture
def command(tiny: Path, tmp_path: Path) -> list[str]:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", result="adapter")
    return ["local", f"--recipe={recipe}", f"--storage={tmp_path}/store", "--run=mine"]


def test_tensorboard_s_events_and_those_of_weights_and_biases_are_the_run_s_figures(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    for name in ("WANDB_RUN_ID", "WANDB_RESUME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert main([*command, "--set=training.report_to=[tensorboard, wandb]"]) == 0
    mine = tmp_path / "store" / "mine"
    events = EventAccumulator(str(mine / "tensorboard"))
    events.Reload()
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses(mine), abs=1e-4)
    assert os.environ["WANDB_RUN_ID"].startswith("mine-")
    (run,) = (tmp_path / "wandb").glob(f"offline-run-*-{os.environ['WANDB_RUN_ID']}")
    assert (run / f"run-{os.environ['WANDB_RUN_ID']}.wandb").stat().st_size


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (
            "[tensorboard, mlflow]",
            "this image has no mlflow, only tensorboard, wandb; docs/training/watching.md says how",
        ),
        ("[wand]", "this image has no wand, only tensorboard, wandb; docs/training/watching.md says how"),
        ("[wandb]", "wandb needs its key in WANDB_API_KEY"),
    ],
)
def test_a_tracker_that_cannot_be_used_ends_the_run_before_anything_is_loaded(
    names: str,
    problem: str,
    command: list[str],
    trained: list[Recipe],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "finetune.model.loading.check_model", lambda _: pytest.fail("the model was looked at")
    )
    assert main([*command, f"--set=training.report_to={names}"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: training.report_to: {problem}")
    assert not trained
