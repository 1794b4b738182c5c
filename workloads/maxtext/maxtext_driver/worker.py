"""Runs on every worker: MaxText's own training program, with this package's metrics."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray.train

from maxtext_driver.metrics import MetricsLog, progress_of
from maxtext_driver.recipe import Recipe
from maxtext_driver.run_folder import Placement, RunFolder


def train_on_worker(config: dict[str, Any]) -> None:
    """Train to the end or raise; Ray then restarts all workers, from the newest checkpoint."""
    recipe: Recipe = config["recipe"]
    placement: Placement = config["placement"]
    run = RunFolder(Path(config["output"]), config["run"])
    rank = ray.train.get_context().get_world_rank()
    print(f"worker {rank} is process {os.getpid()} on {socket.gethostname()}", flush=True)
    if not (run.path / "run.json").exists():
        raise RuntimeError(f"{run.path} is not the driver's; every host must mount the same bucket there")
    train(recipe, run, placement, rank)
    saved, steps = run.steps_saved(), recipe.steps
    if saved < steps:
        raise RuntimeError(f"training stopped after step {saved} of {steps}")
    if rank == 0:
        run.finish(steps)


def train(recipe: Recipe, run: RunFolder, placement: Placement, rank: int) -> None:
    """Run MaxText's training from the newest checkpoint to the last step."""
    # Imported here because JAX must not look for devices before Ray has joined the processes.
    import jax
    from absl import logging
    from maxtext.trainers.pre_train import train as pre_train

    from maxtext_driver.configuration import maxtext_arguments

    # Orbax logs some forty lines about every checkpoint.
    logging.set_verbosity(logging.WARNING)
    saved = run.steps_saved()
    if rank == 0:
        print(f"training from step {saved} of {recipe.steps} on {jax.device_count()} chips", flush=True)
    arguments = maxtext_arguments(
        recipe,
        hardware="tpu" if placement.topology else "cpu",
        base_output_directory=str(run.output),
        run_name=run.name,
        enable_checkpointing=True,
        # Ray has done so already.
        skip_jax_distributed_system=True,
    )
    log = MetricsLog(run.path, from_step=saved) if rank == 0 else None
    with _reporting_to(log):
        try:
            pre_train.main(arguments)
        except SystemExit as end:  # for example a loss that is not a number
            raise RuntimeError("MaxText gave up; its reason is in the log of this worker") from end


@contextmanager
def _reporting_to(log: MetricsLog | None) -> Generator[None]:
    """Patch MaxText's logger, which has no hook and is the only place that has the figures of a step."""
    from maxtext.common import metric_logger

    class Reporter(metric_logger.MetricLogger):
        def _log_training_metrics(self, metrics: dict[str, Any], step: int) -> None:
            if log is None:
                return
            progress = progress_of(step, self.config.steps, metrics["scalar"])
            print(progress.line(), flush=True)
            log.append(progress)

    original = metric_logger.MetricLogger
    patched: Any = metric_logger
    patched.MetricLogger = Reporter
    try:
        yield
    finally:
        patched.MetricLogger = original
        if log is not None:
            log.flush()
