"""The adapter of the best evaluation is published, and a run that gets no better ends, killed or not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty import evaluate_to
from outcomes import losses, metrics

from finetune.__main__ import main
from finetune.storage.folder import Folder
from rehearsal.running_pods.tiny import make_recipe

# What the evaluations come to: the untrained model, which is never the best, and every second step.
EVALUATIONS = {"0": 0.1, "2": 3.0, "4": 1.0, "6": 2.0, "8": 1.0, "10": 0.5}
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(autouse=True)
def evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    from finetune.run.trainer import RowTrainer

    monkeypatch.setattr(RowTrainer, "evaluation_loop", RowTrainer.evaluation_loop)
    evaluate_to(EVALUATIONS)


@pytest.fixture
def train(tiny: Path, tmp_path: Path) -> Callable[..., int]:
    more = {"packing": False, "evaluate_every_steps": 2, "checkpoints_to_keep": 9, "result": "adapter"}
    best = {"load_best_model_at_end": True, "early_stopping_patience": 2}
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", **more, **best)
    recipe.write_text(f"{recipe.read_text()}\nevaluation: {{judge: emoji, rows: 2, max_new_tokens: 3}}\n")
    command = ["local", f"--recipe={recipe}", f"--storage={tmp_path}", "--run=mine"]
    return lambda *more: main([*command, *more])


def the_best_is_published(run: Path) -> None:
    """That of step 4, after which two evaluations were no better."""
    assert len(losses(run)) == 8
    complete = json.loads((run / "COMPLETE.json").read_text())
    assert (complete["steps"], complete["evaluation"]["step"], complete["evaluation"]["eval_loss"]) == (
        8,
        4,
        1,
    )
    assert metrics(run)[-1] == {"step": 4} | complete["answers"]
    saved = {path.name[:19]: (path / WEIGHTS).read_bytes() for path in run.glob("checkpoint-*")}
    assert (run / "adapter" / WEIGHTS).read_bytes() == saved["checkpoint-00000004"]
    assert saved["checkpoint-00000004"] != saved["checkpoint-00000008"]
    assert [path.name for path in run.glob("best-*")] == ["best-00000004"]


def test_a_run_that_gets_no_better_ends_and_its_best_adapter_is_published(
    train: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train() == 0
    the_best_is_published(tmp_path / "mine")
    assert "run mine is finished, its adapter is in" in capsys.readouterr().out
    assert train() == 0
    assert "run mine is finished already" in capsys.readouterr().out


def test_a_run_that_is_killed_again_and_again_has_the_same_best(
    train: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the best, or a checkpoint, is uploaded, and when it has stopped early and has not published."""
    upload = Folder.upload
    for lost in ("best-00000004", "checkpoint-00000004", "checkpoint-00000008", "adapter"):

        def killed(folder: Folder, source: Path, name: str, lost: str = lost) -> None:
            if name.startswith(lost) and name.endswith(WEIGHTS):
                raise KeyboardInterrupt
            upload(folder, source, name)

        monkeypatch.setattr(Folder, "upload", killed)
        with pytest.raises(KeyboardInterrupt):
            train()
    assert not (tmp_path / "mine" / "COMPLETE.json").exists()
    monkeypatch.setattr(Folder, "upload", upload)
    assert train() == 0
    the_best_is_published(tmp_path / "mine")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "evaluate_every_steps=null",
            "load_best_model_at_end needs training.evaluate_every_steps, a",
        ),
        ("evaluate_every_steps=3", "load_best_model_at_end needs training.evaluate_every_steps, a"),
        ("load_best_model_at_end=false", "early_stopping_patience needs training.load_best_model_at_end"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(
    setting: str, message: str, train: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(f"--set=training.{setting}") == 2
    assert message in capsys.readouterr().err
