"""Progress of a run, as a line per step."""

from collections.abc import Mapping

# A step's figures and MaxText's names of them. Seconds are wall time, and speeds are per chip. TFLOP/s are
# MaxText's count, without recomputed activations.
FIGURES = {
    "loss": "learning/loss",
    "learning_rate": "learning/current_learning_rate",
    "grad_norm": "learning/raw_grad_norm",
    "seconds": "perf/step_time_seconds",
    "tflops_per_second_per_chip": "perf/per_device_tflops_per_sec",
    "tokens_per_second_per_chip": "perf/per_device_tokens_per_sec",
}


def progress_of(step: int, steps: int, scalars: Mapping[str, float]) -> dict[str, float]:
    """The line of metrics.jsonl from MaxText's scalars of its step `step`, which it counts from 0."""
    figures = {name: float(scalars[key]) for name, key in FIGURES.items()}
    left = (steps - step - 1) * figures["seconds"]
    return {"step": step + 1, "steps": steps, **figures, "seconds_left": left}


def line(progress: Mapping[str, float]) -> str:
    """The progress in a line for people."""
    left = int(progress["seconds_left"])
    return (
        "step {step}/{steps} loss {loss:.4f} lr {learning_rate:.2e} grad_norm {grad_norm:.3f} "
        "seconds {seconds:.3f} TFLOP/s/chip {tflops_per_second_per_chip:.1f} "
        "tokens/s/chip {tokens_per_second_per_chip:.0f} left {minutes}:{rest:02d}"
    ).format(**progress, minutes=left // 60, rest=left % 60)
