"""What a trial does with the small model: train, stop, resume, publish, and the same without a stop."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets.config
from safetensors import safe_open

from finetune.run.driver import Request
from finetune.run.outcome import Outcome
from finetune.run.training import train
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.errors import InputError
from shared.time_limit import NO_LIMIT, TimeLimit
from shared.writer import NOT_FINITE
from trial.small_model import NoTrial

# Steps of the first process.
BEFORE_STOP = 2
STOPPED, WHOLE = "stopped", "whole"


@dataclass
class StopAfter:
    """A driver that asks to save and stop after some steps, as SIGTERM does. With None it never asks."""

    steps: int | None
    _done: int = field(default=0, init=False)

    def begin(self) -> None:
        """Begin to count."""

    def requested(self) -> Request:
        self._done += 1
        return Request.SAVE_AND_STOP if self._done == self.steps else Request.CONTINUE


def train_until_stop(recipe: Recipe, folder: Path) -> None:
    """Answers of the untrained model, two steps, and a checkpoint, as after SIGTERM."""
    outcome = _train(recipe, folder, STOPPED, BEFORE_STOP)
    if outcome.finished or outcome.step != BEFORE_STOP:
        raise RuntimeError(f"the run did not stop after step {BEFORE_STOP}, but after {outcome.step}")


def resume_and_publish(recipe: Recipe, folder: Path) -> None:
    """The rest of the steps from the checkpoint, answers, and everything that the recipe publishes."""
    outcome = _train(recipe, folder, STOPPED, None)
    run = RunFolder(str(folder), STOPPED)
    missing = [name for name in recipe.results if not run.finished().get(name)]
    if not outcome.finished or missing:
        raise RuntimeError(f"the run did not finish: {', '.join(missing) or outcome.step}")


def train_without_stop(recipe: Recipe, folder: Path) -> None:
    """The same steps in one process. Raises InputError when they come to other figures or weights."""
    if recipe.lora:
        recipe = recipe.model_copy(
            update={"training": recipe.training.model_copy(update={"result": "adapter"})}
        )
    _train(recipe, folder, WHOLE, None)
    place = difference(folder, "adapter" if recipe.lora else "model")
    if not place:
        return
    names = ", ".join(sorted(recipe.training.trl))
    remedy = (
        f"leave out what breaks it of training.trl ({names})"
        if names
        else "take another model, or make sure that nothing stops the run"
    )
    raise InputError(
        f"a run that is stopped and resumed has another {place} than one without a stop: {remedy}"
    )


def _train(recipe: Recipe, folder: Path, name: str, steps: int | None) -> Outcome:
    """Train as the command does, in this process. The rows' cache lies in the trial's own folder."""
    datasets.config.HF_DATASETS_CACHE = folder / "datasets"
    run = RunFolder(str(folder), name)
    run.claim(recipe, 1)
    try:
        return train(run.pinned(recipe), run, StopAfter(steps), TimeLimit(run.folder, NO_LIMIT))
    except Exception as error:
        if run.folder.read_text(NOT_FINITE):
            raise NoTrial(f"{error} (with random weights, which says nothing of the real ones)") from error
        raise


def difference(folder: Path, result: str) -> str | None:
    """Where the stopped run and the whole one differ first, or None if they are equal bit by bit."""
    for stopped, whole in zip(*(_figures(folder / name) for name in (STOPPED, WHOLE)), strict=True):
        for key in ("loss", "grad_norm", "learning_rate"):
            if stopped.get(key) != whole.get(key):
                return f"{key} at step {whole['step']} ({stopped.get(key)}, not {whole.get(key)})"
    for file in sorted((folder / WHOLE / result).glob("*.safetensors")):
        with safe_open(file, "pt") as one, safe_open(folder / STOPPED / result / file.name, "pt") as other:
            for name in [*one.keys()]:
                if not one.get_tensor(name).equal(other.get_tensor(name)):
                    return f"weight {name}"
    return None


def _figures(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run's training steps."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if "loss" in line]
