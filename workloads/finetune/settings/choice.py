"""What a run chooses where its recipe says nothing: packs, their length, the batch, and recomputation.

Only arithmetic: the trainer, the dry run and the computation of the memory call the same function.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

from finetune.settings.sections import Training

# Rows of a step in one process, and the steps of an epoch for which fewer are taken.
ROWS, STEPS = 16, 10
# Tokens of a step with which a GPU is busy. Recomputation costs more than a larger step gains.
BUSY = 2048
# Share of the rows that a length must hold when some rows are much longer than the others.
USUAL = 0.995
# Share of a GPU's memory that a step may take by the estimate.
SHARE = 0.75
# Lengths are multiples of it.
UNIT = 64


@dataclass(frozen=True, kw_only=True)
class Size:
    """A model on one GPU, in bytes.

    Attributes:
        memory: The memory of the GPU.
        fixed: What weights, gradients and optimizer take.
        kept: Activations of a token, when all are kept until the backward pass.
        recomputed: The same when those of a layer are computed twice.
    """

    memory: float
    fixed: float
    kept: float
    recomputed: float

    def tokens(self, recomputes: bool) -> float:
        """The tokens of a step for which there is memory."""
        return max(0.0, (SHARE * self.memory - self.fixed) / (self.recomputed if recomputes else self.kept))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a run: how many, and the numbers of tokens of some of them."""

    count: int
    lengths: Sequence[int]

    @property
    def mean(self) -> float:
        """Tokens of an average row."""
        return sum(self.lengths) / len(self.lengths)

    @property
    def long(self) -> int:
        """The longest row, or if it is more than twice as long as nearly all others, the longest of these."""
        ordered = sorted(self.lengths)
        usual = ordered[ceil(USUAL * len(ordered)) - 1]
        return ordered[-1] if ordered[-1] <= 2 * usual else usual


def choose(
    training: Training,
    rows: Rows,
    size: Size | None,
    positions: int | None = None,
    processes: int = 1,
    pictures: bool = False,
) -> Training:
    """The settings with a value for each that is open. What is given stays.

    Args:
        size: The model on the GPU, or None without one: then memory sets no limit.
        positions: The longest sequence that the model takes.
        pictures: Rows have pictures, which no length limits.
    """
    together = max(1, min(ROWS, rows.count // (STEPS * processes)))
    wanted = max(rows.long, ceil(together * rows.mean)) if training.packs else rows.long
    for recomputes in [False, True] if training.gradient_checkpointing is None else [training.recomputes]:
        room = size.tokens(recomputes) if size else inf
        most = min(room / training.batch // UNIT * UNIT if size else inf, positions or inf)
        length = training.max_length or int(max(UNIT, min(_up(wanted), most)))
        fitting = together if room >= together * length else int(room // length)
        batch = training.batch_size or (1 if training.packs else max(1, fitting))
        whole = wanted if training.packs else length * (training.batch_size or together)
        holds_rows = length >= min(rows.long, positions or inf)
        if holds_rows and min(BUSY, whole) <= length * batch <= room:
            break
    changes: dict[str, Any] = {
        "packing": training.packs,
        "max_length": None if pictures else length,
        "batch_size": batch,
        "gradient_checkpointing": recomputes,
    }
    return training.model_copy(update=changes)


def _up(tokens: float) -> int:
    return ceil(tokens / UNIT) * UNIT


def choice_line(names: Sequence[str], chosen: Training) -> str:
    """A line for people: the settings of these names, which were chosen."""
    words = ", ".join(f"{name} {str(getattr(chosen, name)).lower()}" for name in names)
    return f"chosen, because the recipe does not say it: {words}"
