"""Measures how fast rows become the packs of a trainer, beside trl with `dataset_num_proc`.

`python -m benchmarks.training.tokens [ROWS ...]` prints this part of the benchmark alone.
"""

import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final, cast

import datasets.config
from datasets import Dataset
from transformers import Trainer
from transformers.trainer_utils import IntervalStrategy
from trl import SFTConfig, SFTTrainer

from benchmarks.training.stand_ins import make_data, make_models
from finetune.model.loading import load_processor
from finetune.rows.cores import cores
from finetune.rows.data import load_conversations
from finetune.run.training import build_trainer, sft_arguments
from finetune.settings.recipe import Recipe, load_recipe

ROWS: Final = 4000
# The recipe wants some. No side makes tokens of them.
TEST_ROWS: Final = 32
OURS, LATER, LIBRARY = "this project", "this project, a later start", "trl, dataset_num_proc"
HEADER: Final = (
    "| rows | packed by | sequences | seconds | CPU seconds | CPU, to trl | held memory, MB |\n"
    + "|---" * 7
    + "|"
)


@dataclass(frozen=True, kw_only=True)
class Start:
    """The making of a trainer from conversations. `held_bytes` is the memory that it takes in its process."""

    side: str
    sequences: int
    seconds: float
    cpu_seconds: float
    held_bytes: int


def token_lines(rows: int, stand_ins: Path) -> list[str]:
    """A line for each side. Each is a process of its own, which may use all cores."""
    with tempfile.TemporaryDirectory() as folder:
        starts = [alone(side, rows, stand_ins, Path(folder)) for side in (LIBRARY, OURS, LATER)]
    (library, *_) = starts
    return [
        f"| {rows:,} | {start.side} | {start.sequences:,} | {start.seconds:.1f} | {start.cpu_seconds:.1f} "
        f"| {start.cpu_seconds / library.cpu_seconds:.2f} | {start.held_bytes / 1e6:.0f} |"
        for start in starts
    ]


def alone(side: str, rows: int, stand_ins: Path, folder: Path) -> Start:
    """Measure in a fork, which has imported everything. Unlike a pool's, it may start processes."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(_measure, side, rows, stand_ins, folder).result()


def _measure(side: str, rows: int, stand_ins: Path, folder: Path) -> Start:
    datasets.config.HF_DATASETS_CACHE = folder
    datasets.disable_progress_bars()
    overrides = [
        *(f"model.name={stand_ins}/tiny-vision", f"data.name={stand_ins}/sql"),
        *(
            f"data.rows={rows}",
            f"data.test_rows={TEST_ROWS}",
            "training.loader_processes=0",
            "training.sharding=none",
        ),
        *("model.quantization=none", "model.precision=fp32", "evaluation.rows=0"),
    ]
    recipe = load_recipe("gemma-3-12b-text-to-sql", overrides)
    conversations, _ = load_conversations(recipe.data, recipe.training.rows_seed)
    plain = Dataset.from_list([*conversations]) if side == LIBRARY else conversations
    (cpu, held), began = _used(), time.perf_counter()
    trainer = _library(recipe, plain, folder) if side == LIBRARY else _shipped(recipe, plain, folder)
    seconds, (cpu_after, held_after) = time.perf_counter() - began, _used()
    return Start(
        side=side,
        sequences=len(cast(Dataset, trainer.train_dataset)),
        seconds=seconds,
        cpu_seconds=cpu_after - cpu,
        held_bytes=held_after - held,
    )


def _shipped(recipe: Recipe, rows: Dataset, folder: Path) -> Trainer:
    arguments = sft_arguments(recipe, folder)
    arguments.eval_strategy = IntervalStrategy.NO
    return build_trainer(recipe, arguments, rows, None, [])


def _library(recipe: Recipe, rows: Dataset, folder: Path) -> Trainer:
    arguments = SFTConfig(
        output_dir=str(folder / "library"),
        packing=True,
        max_length=recipe.training.max_length,
        completion_only_loss=True,
        dataset_num_proc=cores(),
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    processor = load_processor(recipe.model.name, False)
    return SFTTrainer(model=recipe.model.name, args=arguments, train_dataset=rows, processing_class=processor)


def _used() -> tuple[float, int]:
    """CPU seconds of this process and of those that it started, and the bytes that it holds in no file."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return sum(part.ru_utime + part.ru_stime for part in parts), held * 1024


def main() -> None:
    """Print the table for the numbers of rows that the command names."""
    counts = [int(argument) for argument in sys.argv[1:]] or [ROWS]
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make_models(Path(folder))
        make_data(Path(folder), max(counts) + TEST_ROWS, pictures=0)
        for rows in counts:
            print(*token_lines(rows, Path(folder)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
