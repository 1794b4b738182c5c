"""Progress of a run, as a line per step."""

from collections.abc import Mapping
from dataclasses import dataclass


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
