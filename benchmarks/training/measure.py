"""Measures one training of a case in a process of its own: speed, memory and loss."""

import resource
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
import trl.trainer.utils
from transformers import Trainer
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

import finetune.run.turns
from benchmarks.training.library import library_trainer
from benchmarks.training.own_fit import chosen
from finetune.rows.data import load_conversations
from finetune.run.training import build_trainer, sft_arguments
from finetune.settings.lora import Lora
from finetune.settings.recipe import Recipe, load_recipe
from finetune.settings.sections import Training

IGNORED = -100
PADDED, PACKED, RECIPE = "trl, padded by length", "trl, packed", "recipe"
# The recipe without the shared prefix. Its one advantage over trl is then attention within the rows.
WHOLE_PROMPTS = "recipe, whole prompts"
LIBRARY = (PADDED, PACKED)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A shipped recipe, and the small model and data that all sides are trained with.

    Attributes:
        name: The data.
        silent: The recipe keeps its data alone. The run chooses what may be chosen, and all else has its
            default.
    """

    name: str
    recipe: str
    silent: bool = False
    model: str
    rows: dict[str, int]
    test_rows: int
    # So many times trl's reply tokens per second.
    aim: float

    @property
    def label(self) -> str:
        """The case in a table."""
        return f"{self.name}, defaults" if self.silent else self.name

    @property
    def packed(self) -> bool:
        """Whether the shipped recipe packs its rows."""
        return load_recipe(self.recipe).training.packs


SHIPPED = (
    Case(
        name="emoji",
        recipe="gemma-3-1b-emoji",
        model="text",
        rows={"tiny": 160, "mid": 96},
        test_rows=32,
        aim=1.0,
    ),
    Case(
        name="sql",
        recipe="gemma-3-12b-text-to-sql",
        model="vision",
        rows={"tiny": 128, "mid": 64},
        test_rows=32,
        aim=1.5,
    ),
    Case(
        name="product",
        recipe="gemma-3-4b-vision",
        model="vision",
        rows={"tiny": 64, "mid": 32},
        test_rows=16,
        aim=1.0,
    ),
)
# So many rows that a silent recipe takes sixteen a step, as many as trl's user would.
MANY = {"tiny": 160, "mid": 160}
CASES = (*SHIPPED, *(replace(case, silent=True, rows=MANY, aim=1.0) for case in SHIPPED))
MOST_ROWS = max(rows + case.test_rows for case in CASES for rows in case.rows.values())
# By the memory of an L4 a run chooses what its recipe leaves open.
MEMORY_GB = 24


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The figures of one training.

    Attributes:
        seconds: Seconds of training. On a CPU without the kernel's time, which includes allocating memory.
        loss: The mean over the reply tokens of the test rows, on which no side is trained.
    """

    seconds: float
    kernel_seconds: float
    reply_tokens: int
    steps: int
    trainable: int
    peak_bytes: int
    loss_before: float
    loss: float

    @property
    def speed(self) -> float:
        """Reply tokens per second."""
        return self.reply_tokens / self.seconds


def recipe_of(case: Case, size: str, stand_ins: Path) -> Recipe:
    """The shipped recipe with the small model and data, for one epoch, on a CPU unquantized and in fp32.

    A silent one has a value for each setting that it leaves open.
    """
    overrides = [
        f"model.name={stand_ins}/{size}-{case.model}",
        f"data.name={stand_ins}/{case.name}",
        f"data.rows={case.rows[size]}",
        f"data.test_rows={case.test_rows}",
        "training.epochs=1",
        # Starting loader processes would take longer than these runs.
        "training.loader_processes=0",
        "training.sharding=none",
    ]
    if not torch.cuda.is_available():
        overrides += ["model.quantization=none", "model.precision=fp32"]
    recipe = load_recipe(case.recipe, overrides)
    if not case.silent:
        return recipe
    training = Training(loader_processes=recipe.training.loader_processes)
    return chosen(recipe.model_copy(update={"lora": Lora(), "training": training}), MEMORY_GB, 1)


def shipped(recipe: Recipe, workspace: Path) -> Trainer:
    """The trainer of `python -m finetune`, without checkpoints and without evaluation during training.

    From here on trl computes logits for reply tokens alone, as it does with Triton and a GPU.
    """
    heads: Any = trl.trainer.utils
    heads._use_triton = lambda device: True
    arguments = sft_arguments(recipe, workspace)
    arguments.save_strategy = SaveStrategy.NO
    arguments.eval_strategy = IntervalStrategy.NO
    return build_trainer(recipe, arguments, *load_conversations(recipe.data, recipe.training.seed), [])


def library(recipe: Recipe, workspace: Path, ours: Trainer, packed: bool = False) -> Trainer:
    """The trainer of somebody who knows trl, over the same rows in as many steps as `ours`."""
    rows, test_rows = load_conversations(recipe.data, recipe.training.seed)
    assert test_rows is not None
    batches = len(ours.get_train_dataloader())
    return library_trainer(recipe, rows, test_rows, workspace, ceil(len(rows) / batches), packed)


def measure(case: Case, size: str, side: str, stand_ins: Path) -> Measurement:
    """Train once. Call it in a process that has not trained before, because its memory would count too."""
    torch.set_num_threads(1)
    if side == WHOLE_PROMPTS:
        patched: Any = finetune.run.turns
        patched.split_off_prefix = lambda rows, test_rows: ([], rows, test_rows)
    recipe = recipe_of(case, size, stand_ins)
    with tempfile.TemporaryDirectory() as workspace:
        counted = shipped(recipe, Path(workspace))
        reply_tokens = count_labels(counted.get_train_dataloader())
        trainer = counted
        if side in LIBRARY:
            trainer = library(recipe, Path(workspace), counted, side == PACKED)
            del counted
        test_batches = [*trainer.get_eval_dataloader()]
        loss_before = reply_loss(trainer, test_batches)
        _forget_peak()
        began = _clock()
        trainer.train()
        seconds, kernel_seconds = (end - start for start, end in zip(began, _clock(), strict=True))
        peak = _peak()
        model: Any = trainer.model
        return Measurement(
            seconds=seconds,
            kernel_seconds=kernel_seconds,
            reply_tokens=reply_tokens,
            steps=trainer.state.global_step,
            trainable=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
            peak_bytes=peak,
            loss_before=loss_before,
            loss=reply_loss(trainer, test_batches),
        )


def count_labels(batches: Iterable[dict[str, Any]]) -> int:
    """The number of tokens that count in the loss."""
    return sum(int((batch["labels"][:, 1:] != IGNORED).sum()) for batch in batches)


def reply_loss(trainer: Trainer, batches: Iterable[dict[str, Any]]) -> float:
    """The mean loss over all reply tokens, computed in the same way for all sides."""
    model: Any = trainer.model
    model.to(trainer.args.device).eval()
    total, tokens = 0.0, 0
    for loss, count in _losses(model, trainer.args.device, batches):
        total, tokens = total + loss, tokens + count
    model.train()
    return total / tokens


@torch.no_grad()
def _losses(model: Any, device: Any, batches: Iterable[dict[str, Any]]) -> Iterator[tuple[float, int]]:
    for batch in batches:
        inputs = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in batch.items()
            if name != "labels"
        }
        labels = batch["labels"][:, 1:].to(device)
        logits = model(**inputs, use_cache=False).logits[:, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="sum")
        yield loss.item(), int((labels != IGNORED).sum())


def commit() -> str:
    """The commit of the code that is measured."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout

    changed = git("status", "--porcelain", "--", "../../workloads", ".").strip()
    return git("rev-parse", "--short=12", "HEAD").strip() + (" with changes" if changed else "")


def _clock() -> tuple[float, float]:
    """Seconds on a GPU, or this process's user time and system time on a CPU.

    Other load on the machine does not count in either. System time is separate because one page of memory
    took the kernel 2 to 14 us on the virtual machine where this was written, for all sides. A GPU allocates
    its memory once.
    """
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter(), 0.0
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def _forget_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    elif (peak := Path("/proc/self/clear_refs")).exists():
        peak.write_text("5")  # proc(5): resets the peak of resident memory


def _peak() -> int:
    """The peak of memory in bytes: of the GPU if there is one, else of the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
