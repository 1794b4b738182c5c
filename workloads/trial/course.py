"""The course of a trial: its stages in turn, a line for each, and one line for what is wrong."""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

# Before torch is imported: no small model gains by a second thread, and a fork has only one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from finetune.dry_run import print_plan
from finetune.model.loading import fetch_model
from finetune.settings.recipe import Recipe
from shared.errors import InputError, PassingError
from shared.exit_codes import Exit
from shared.hub import commits
from shared.model_files import DESCRIPTIONS
from trial.compare import compare_published
from trial.processes import READ, STEP, Kind, StageError, in_process
from trial.record import digest, keep, passed_at, progress, records
from trial.small_model import SmallModel, make_small_model
from trial.small_recipe import make_small_recipe
from trial.stages import STOPPED, resume_and_publish, train_until_stop, train_without_stop

T = TypeVar("T")
UNSEEN = "a trial cannot see: several processes, GPU kernels, the real weights, memory, speed"
# A key that avoids what a run was doing when it failed.
WAYS_OUT = {
    "answers": "evaluation.rows: 0 leaves out the answers, or take another model.name",
    "publish": "training.result: adapter publishes the adapter alone, or take another model.name",
    "save and resume": "look at training.trl, or take another model.name",
    "read the rows": "look at data and its rows",
    "load the model": "take another model.name, or model.quantization: none",
    "set up the trainer": "look at training.trl",
    "train a step": "look at lora.target_modules and training.trl, or take another model.name",
}


def run_trial(recipe: Recipe, name: str, storage: str | None, run: str | None = None) -> int:
    """Try a recipe, print what was tried, and return the exit code.

    A `run` in `storage` that is finished or has a checkpoint is not tried.

    Raises:
        InputError: If the run would fail. The message is the one line that says why.
        PassingError: If the Hub or the storage is in trouble.
    """
    if storage and run and (state := progress(storage, run)):
        print(f"run {run} {state}, so {name} needs no trial", flush=True)
        return Exit.FINISHED
    folder = records(storage)
    recipe = recipe.at(commits(recipe.sources, None))
    trial = digest(recipe)
    if at := passed_at(folder, trial):
        print(f"{name} has passed its trial at {at}, and nothing has changed since; {UNSEEN}", flush=True)
        return Exit.FINISHED
    with tempfile.TemporaryDirectory(prefix="trial-") as work:
        course = Course(recipe, Path(work))
        try:
            course.run()
        except StageError as error:
            if error.kind is not Kind.NO_TRIAL:
                raise course.ending(error) from error
            print(f"warning: no trial of {name}: {error}", file=sys.stderr, flush=True)
            return Exit.FINISHED
    keep(folder, trial, name)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{name} passed its trial: {used.ru_utime + used.ru_stime:.0f} CPU seconds, "
        f"{used.ru_maxrss / 2**20:.1f} GiB of memory at most; {UNSEEN}",
        flush=True,
    )
    return Exit.FINISHED


@dataclass
class Course:
    """A trial in a folder of its own."""

    recipe: Recipe
    work: Path

    def run(self) -> None:
        """Run the stages. Raises StageError."""
        tempfile.tempdir = str(self.work)
        try:
            self._run()
        finally:
            tempfile.tempdir = None

    def _run(self) -> None:
        recipe, work = self.recipe, self.work
        self._stage("plan with all rows", lambda: print_plan(recipe, 1))
        model = self._stage("small model", self._make_model)
        print(f"  {model.text}", flush=True)
        small = self._stage("a few short rows", lambda: make_small_recipe(recipe, model.folder, work))
        self._stage("answers before, two steps, a stop", lambda: train_until_stop(small, work))
        self._stage("resume, answers, publish", lambda: resume_and_publish(small, work))
        self._stage("load what was published", lambda: compare_published(small, work, STOPPED))
        # After an evaluation, bitsandbytes computes 4-bit weights on a CPU in another order.
        if recipe.model.quantization != "nf4":
            self._stage("the same without a stop", lambda: train_without_stop(small, work))

    def _make_model(self) -> SmallModel:
        return make_small_model(fetch_model(self.recipe.model, DESCRIPTIONS), self.work / "model")

    def _stage(self, title: str, stage: Callable[[], T]) -> T:
        """Run a stage in a process of its own, and print a line about it."""
        begin = time.monotonic()
        result = in_process(stage, self.work / "log.txt")
        print(f"{title}: {time.monotonic() - begin:.0f} s", flush=True)
        return result

    def ending(self, error: StageError) -> InputError | PassingError:
        """The one line about a failure. The traceback of an error that nobody has foreseen is printed."""
        text = str(error).replace(str(self.work / "model"), self.recipe.model.name)
        text = text.replace(str(self.work / "rows.parquet"), self.recipe.data.title)
        if error.trace:
            print(error.trace, flush=True)
        if error.kind is Kind.PASSING:
            return PassingError(text)
        if error.kind is Kind.INPUT:
            return InputError(text)
        place = error.place or STEP
        own = "".join(f"training.trl.{name}, " for name in sorted(self.recipe.training.trl))
        remedy = f"leave out {own}or else {WAYS_OUT[place]}" if own else WAYS_OUT[place]
        subject = f"data set {self.recipe.data.title}" if place == READ else f"model {self.recipe.model.name}"
        return InputError(f"{subject}: a run would fail when it has to {place}: {text}; {remedy}")
