"""A worker that is killed at given steps; imported by Ray's workers."""

import os
import signal
from pathlib import Path
from typing import Any


def train_and_die(config: dict[str, Any]) -> None:
    """Replaces the driver's worker function: kills rank 1 once after each step in `<output>/faults`.

    The directory holds an empty file per step, removed when its fault has happened.
    """
    import ray.train
    from maxtext.trainers.pre_train import train as pre_train

    from maxtext_driver import worker

    faults = Path(config["output"], "faults")
    original = pre_train.checkpointing.maybe_save_checkpoint
    rank = ray.train.get_context().get_world_rank()

    def save_and_die(manager: Any, state: Any, settings: Any, data: Any, step: int | None = None) -> None:
        original(manager, state, settings, data, step)
        fault = faults / str(None if step is None else step + 1)
        if rank == 1 and fault.exists():
            fault.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    patched: Any = pre_train.checkpointing
    patched.maybe_save_checkpoint = save_and_die
    worker.train_on_worker(config)
