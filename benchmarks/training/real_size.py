"""Trains the shipped recipes at their real size on one GPU: the time and the memory of a step, beside trl.

    python -m benchmarks.training.real_size --case sql

The models have the sizes of the published ones and random weights, which train as fast as real ones. The rows
are made up. A recipe whose step takes more than this GPU has is left out. The table is also written to
benchmarks/training/results-real-size.md.
"""

import argparse
import gc
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, Final

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "workloads"))
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from transformers import TrainerCallback  # noqa: E402

from benchmarks.training.library import library_trainer  # noqa: E402
from benchmarks.training.measure import commit, count_labels, shipped  # noqa: E402
from benchmarks.training.stand_ins import make_data, make_models, make_published_size  # noqa: E402
from finetune.rows.data import load_conversations  # noqa: E402
from finetune.settings.recipe import FIT, Recipe, load_recipe  # noqa: E402

RECIPE, RECIPE_LIGER, TRL, TRL_LIGER = "recipe", "recipe, liger", "trl", "trl, liger"
SIDES: Final = (RECIPE, RECIPE_LIGER, TRL, TRL_LIGER)
STEPS, WARM_UP = 16, 4
ROWS: Final = {"emoji": 1000, "sql": 1000, "product": 96}
TEST_ROWS: Final = 8
HEADER: Final = (
    "| recipe | side | ms a step | reply tokens/s | peak, GB | computed by fit, GB | last loss |\n"
    + "|---" * 7
    + "|"
)


COLUMNS_OF_SQL: Final = (
    "data.fields.schema=sql_context",
    "data.fields.question=sql_prompt",
    "data.reply=sql",
)


@dataclass(frozen=True)
class Case:
    """A shipped recipe, the made-up rows that it trains with, and the small model whose words they are.

    Args:
        columns: What of the recipe is set, because the made-up rows have other columns than its own rows.
    """

    name: str
    recipe: str
    rows: str
    words_of: str
    columns: tuple[str, ...] = ()


CASES: Final = (
    Case("emoji", "gemma-3-1b-emoji", "emoji", "tiny-text"),
    Case("sql", "gemma-3-12b-text-to-sql", "sql", "tiny-vision"),
    Case("sql-4b", "gemma-3-4b-sql", "sql", "tiny-vision", COLUMNS_OF_SQL),
    Case("product", "gemma-3-4b-vision", "product", "tiny-vision"),
    Case("emoji-gemma-4", "gemma-4-e2b-emoji", "emoji", "tiny-text"),
)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The figures of one training: seconds of a step after the first ones, bytes, loss of the last step."""

    step_seconds: float
    reply_tokens_a_step: float
    peak_bytes: int
    loss: float

    @property
    def speed(self) -> float:
        """Reply tokens per second."""
        return self.reply_tokens_a_step / self.step_seconds


class StepClock(TrainerCallback):
    """The time at which each step of the optimizer ended, on the GPU too."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        torch.cuda.synchronize()
        self.ends.append(time.perf_counter())

    def step_seconds(self) -> float:
        """The median of the steps after the first ones, in which kernels are compiled and memory is taken."""
        ends = self.ends[WARM_UP:]
        return median(end - start for start, end in itertools.pairwise(ends))


def recipe_of(case: Case, side: str, stand_ins: Path) -> Recipe:
    """The shipped recipe with a model of its size and made-up rows, on one GPU."""
    overrides = [
        f"model.name={stand_ins}/model",
        f"data.name={stand_ins}/{case.rows}",
        f"data.rows={ROWS[case.rows]}",
        f"data.test_rows={TEST_ROWS}",
        "training.sharding=none",
        *case.columns,
    ]
    if side == RECIPE_LIGER:
        overrides.append("training.trl.use_liger_kernel=true")
    return load_recipe(case.recipe, overrides)


def measure_apart(case: Case, side: str, stand_ins: Path) -> Steps:
    """Train some steps of one side in a process of its own.

    liger-kernel replaces layers in the whole process, and they would stay for the sides after it.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, case, side, stand_ins).result()


def measure(case: Case, side: str, stand_ins: Path) -> Steps:
    """Train some steps of one side."""
    recipe = recipe_of(case, side, stand_ins)
    with tempfile.TemporaryDirectory() as workspace:
        trainer: Any = shipped(recipe, Path(workspace))
        batches = [*trainer.get_train_dataloader()]
        reply_tokens = count_labels(batches) / len(batches)
        if side in (TRL, TRL_LIGER):
            del trainer
            _free()
            trainer = _library(recipe, len(batches), Path(workspace), liger=side == TRL_LIGER)
        del batches
        clock = StepClock()
        trainer.add_callback(clock)
        trainer.args.max_steps = trainer.args.logging_steps = STEPS
        torch.cuda.reset_peak_memory_stats()
        trainer.train()
        (loss,) = (entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
        return Steps(
            step_seconds=clock.step_seconds(),
            reply_tokens_a_step=reply_tokens * recipe.training.accumulation_steps,
            peak_bytes=torch.cuda.max_memory_allocated(),
            loss=loss,
        )


def _library(recipe: Recipe, batches: int, workspace: Path, *, liger: bool) -> Any:
    """The trainer of somebody who knows trl, with the rows of all batches in as many batches."""
    rows, test_rows = load_conversations(recipe.data, recipe.training.seed)
    assert test_rows is not None
    return library_trainer(recipe, rows, test_rows, workspace, ceil(len(rows) / batches), False, liger)


def computed_bytes(case: Case) -> int:
    """What `fit` computed for one process with the recipe's own length."""
    length = load_recipe(case.recipe).training.max_length
    points = json.loads(FIT.read_text())[case.recipe]["points"]
    (point,) = [point for point in points if (point["processes"], point["max_length"]) == (1, length)]
    return sum(point["bytes"].values())


def main(words: Sequence[str] | None = None) -> None:
    """Print the table row by row, and write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in CASES]
    parser.add_argument("--case", action="append", choices=names, help="only this recipe; may be repeated")
    parser.add_argument("--side", action="append", choices=SIDES, help="only this side; may be repeated")
    options = parser.parse_args(words)
    chosen, sides = options.case or names, options.side or SIDES
    properties = torch.cuda.get_device_properties(0)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, trl {trl.__version__}"
    lines = [f"Commit {commit()}; {properties.name}, {versions}.", "", HEADER]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        stand_ins = Path(directory)
        make_models(stand_ins)
        make_data(stand_ins, max(ROWS.values()) + TEST_ROWS, ROWS["product"] + TEST_ROWS)
        for case in CASES:
            if case.name not in chosen:
                continue
            gigabytes = computed_bytes(case) / 1e9
            if computed_bytes(case) > 0.95 * properties.total_memory:
                lines.append(f"| {case.recipe} | takes more than this GPU has | | | | {gigabytes:.2f} | |")
                print(lines[-1], flush=True)
                continue
            for line in _lines(case, sides, stand_ins):
                print(line, flush=True)
                lines.append(line)
    (HERE / "results-real-size.md").write_text("\n".join(lines) + "\n")


def _lines(case: Case, sides: Sequence[str], stand_ins: Path) -> Iterator[str]:
    name = load_recipe(case.recipe).model.name
    make_published_size(stand_ins / "model", stand_ins / case.words_of, name)
    _free()
    runs: dict[str, list[Steps]] = {side: [] for side in sides}
    for side in (*sides, *reversed(sides)):
        run = measure_apart(case, side, stand_ins)
        runs[side].append(run)
        figures = f"{run.step_seconds * 1e3:.0f} ms a step, {run.peak_bytes / 1e9:.2f} GB"
        print(f"{case.recipe}, {side}: {figures}", file=sys.stderr, flush=True)
    for side, both in runs.items():
        run = min(both, key=lambda run: run.step_seconds)
        yield (
            f"| {case.recipe} | {side} | {run.step_seconds * 1e3:.0f} | {run.speed:.0f} "
            f"| {run.peak_bytes / 1e9:.2f} | {computed_bytes(case) / 1e9:.2f} | {run.loss:.3f} |"
        )


def _free() -> None:
    gc.collect()
    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
