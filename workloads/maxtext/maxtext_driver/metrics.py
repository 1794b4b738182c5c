"""Progress of a run: a printed line per step, and the same as JSON lines in the run's directory."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from maxtext_driver.run_folder import write_text

# Cloud Storage accepts about one write a second to one object.
SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The state after a step, counted from 1. `seconds` is wall time; speeds are those of one chip.

    TFLOP/s are counted as MaxText does, without recomputed activations.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    grad_norm: float
    seconds: float
    tflops_per_second_per_chip: float
    tokens_per_second_per_chip: float

    def line(self) -> str:
        """For people."""
        left = int((self.steps - self.step) * self.seconds)
        return (
            f"step {self.step}/{self.steps} loss {self.loss:.4f} lr {self.learning_rate:.2e} "
            f"grad_norm {self.grad_norm:.3f} seconds {self.seconds:.3f} "
            f"TFLOP/s/chip {self.tflops_per_second_per_chip:.1f} "
            f"tokens/s/chip {self.tokens_per_second_per_chip:.0f} left {left // 60}:{left % 60:02d}"
        )


def progress_of(step: int, steps: int, scalars: Mapping[str, float]) -> Progress:
    """Progress from MaxText's scalars of its step `step`, which it counts from 0."""
    return Progress(
        step=step + 1,
        steps=steps,
        loss=float(scalars["learning/loss"]),
        learning_rate=float(scalars["learning/current_learning_rate"]),
        grad_norm=float(scalars["learning/raw_grad_norm"]),
        seconds=float(scalars["perf/step_time_seconds"]),
        tflops_per_second_per_chip=float(scalars["perf/per_device_tflops_per_sec"]),
        tokens_per_second_per_chip=float(scalars["perf/per_device_tokens_per_sec"]),
    )


class MetricsLog:
    """`metrics.jsonl` of a run, written anew each time: an object in a bucket cannot be appended to."""

    FILE = "metrics.jsonl"

    def __init__(self, folder: Path, from_step: int, clock: Callable[[], float] = time.monotonic):
        """Keep an earlier process's lines up to `from_step`; later steps will be logged again."""
        self._file, self._clock = folder / self.FILE, clock
        earlier = self._file.read_text().splitlines() if self._file.exists() else []
        self._lines = [line for line in earlier if json.loads(line)["step"] <= from_step]
        self._written = float("-inf")

    def append(self, progress: Progress) -> None:
        """Add a line; it is written with the next one if the last write was less than a second ago."""
        self._lines.append(json.dumps(asdict(progress)))
        if self._clock() - self._written >= SECONDS_BETWEEN_WRITES:
            self.flush()

    def flush(self) -> None:
        """Write all lines so far."""
        write_text(self._file, "".join(f"{line}\n" for line in self._lines))
        self._written = self._clock()
