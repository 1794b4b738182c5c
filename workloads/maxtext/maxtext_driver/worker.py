"""What every worker runs: MaxText's own training loop, with this package's metrics."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray.train

from maxtext_driver.metrics import MetricsLog, progress_of
from maxtext_driver.recipe import Recipe
from maxtext_driver.run_folder import Placement, RunFolder


def train_on_worker(config: dict[str, Any]) -> None:
    """Train to the end or raise; Ray then starts all workers anew, from the newest checkpoint."""
    recipe: Recipe = config["recipe"]
    run = RunFolder(Path(config["output"]), config["run"])
    context = ray.train.get_context()
    rank = context.get_world_rank()
    print(
        f"worker {rank} of {context.get_world_size()} is process {os.getpid()} on {socket.gethostname()}",
        flush=True,
    )
    if not (run.path / "run.json").exists():
        raise RuntimeError(f"{run.path} is not the driver's; every host must mount the same bucket there")
    steps = train(recipe, run, config["placement"], rank)
    saved = run.steps_saved()
    if saved < steps:
        raise RuntimeError(f"training stopped after step {saved} of {steps}")
    if rank == 0:
        run.finish(steps)


def train(recipe: Recipe, run: RunFolder, placement: Placement, rank: int) -> int:
    """Run MaxText's training from the newest checkpoint to the last step; returns how many there are."""
    # Imported late: JAX must not look for its devices before Ray has joined the processes.
    import jax
    from maxtext.trainers.pre_train import train as pre_train

    from maxtext_driver.configuration import read_configuration

    saved = run.steps_saved()
    if rank == 0:
        print(f"{jax.device_count()} chips; training from step {saved}", flush=True)
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
    config = read_configuration(
        recipe,
        hardware="tpu" if placement.topology else "cpu",
        base_output_directory=str(run.output),
        run_name=run.name,
        enable_checkpointing=True,
        log_config=False,
        # Done by Ray.
        skip_jax_distributed_system=True,
    )
    log = MetricsLog(run.path, from_step=saved) if rank == 0 else None
    with _reporting_to(log):
        try:
            pre_train.run(config, None)
        except SystemExit as end:  # a loss that is not a number
            raise RuntimeError("MaxText gave up; its reason is in this worker's log") from end
    return config.steps


@contextmanager
def _reporting_to(log: MetricsLog | None) -> Iterator[None]:
    """MaxText prints its figures on every host and has no other way to get at them than its logger."""
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
