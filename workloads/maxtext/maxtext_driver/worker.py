"""Runs on every worker: MaxText's own training program, with this package's metrics."""

import os
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray.train

from ending.files import MetricsLog
from ending.time_limit import TimeLimit
from maxtext_driver.metrics import progress_of
from maxtext_driver.recipe import Recipe
from maxtext_driver.run_folder import RECORD, Placement, RunFolder


def train_on_worker(config: dict[str, Any]) -> None:
    """Train to the end or the limit, or raise; Ray then restarts all workers, from the newest checkpoint.

    When a node is drained, save, and wait until Ray restarts them, which it does not count.
    """
    recipe: Recipe = config["recipe"]
    placement: Placement = config["placement"]
    run = RunFolder(Path(config["output"]), config["run"])
    rank = ray.train.get_context().get_world_rank()
    print(f"worker {rank} is process {os.getpid()} on {socket.gethostname()}", flush=True)
    # The first look at the bucket from this host: it waits for rights that are new here.
    if not run.first_access((run.path / RECORD).exists):
        raise RuntimeError(f"{run.path} is not the driver's; every host must mount the same bucket there")
    limit = TimeLimit(run, config["max_run_hours"], counts=rank == 0)
    if limit.reached():
        return
    with limit.counted():
        train(recipe, run, placement, limit)
    drained = ray.train.get_preemption_info()
    # All stop after the same step, and rank 0, which counts the time, knows why.
    if rank:
        return
    saved, steps = run.steps_saved(), recipe.steps
    if saved >= steps:
        run.finish(steps)
    elif not limit.reached():
        if drained is None:
            raise RuntimeError(f"training stopped after step {saved} of {steps}")
        print(f"saved after step {saved} of {steps}: a host is told to go, and all start again", flush=True)
        # An error would count as a lost worker, and a return as success.
        threading.Event().wait()


def train(recipe: Recipe, run: RunFolder, placement: Placement, limit: TimeLimit) -> None:
    """Run MaxText's training from the newest checkpoint to the last step, or to the limit."""
    # Imported here because JAX must not look for devices before Ray has joined the processes.
    import jax
    from absl import logging
    from maxtext.trainers.pre_train import train as pre_train

    from maxtext_driver.configuration import maxtext_arguments

    # Orbax logs some forty lines about every checkpoint.
    logging.set_verbosity(logging.WARNING)
    saved = run.steps_saved()
    if limit.counts:
        print(f"training from step {saved} of {recipe.steps} on {jax.device_count()} chips", flush=True)
    arguments = maxtext_arguments(
        recipe,
        hardware="tpu" if placement.topology else "cpu",
        base_output_directory=str(run.output),
        run_name=run.name,
        enable_checkpointing=True,
        # At a SIGTERM to one of them all hosts save after the same step.
        enable_autocheckpoint=True,
        # Ray has done so already.
        skip_jax_distributed_system=True,
    )
    log = MetricsLog(run, from_step=saved) if limit.counts else None
    with _reporting_to(log, limit):
        try:
            pre_train.main(arguments)
        except SystemExit as end:  # for example a loss that is not a number
            raise RuntimeError("MaxText gave up; its reason is in the log of this worker") from end


@contextmanager
def _reporting_to(log: MetricsLog | None, limit: TimeLimit) -> Generator[None]:
    """Patch MaxText's logger, which has no hook and is the only place that has the figures of a step."""
    from maxtext.common import metric_logger

    stopping = False

    class Reporter(metric_logger.MetricLogger):
        def _log_training_metrics(self, metrics: dict[str, Any], step: int) -> None:
            # Asked on every host: one that does not ask keeps the others waiting.
            drained = ray.train.get_preemption_info()
            if log is None:
                return
            progress = progress_of(step, self.config.steps, metrics["scalar"])
            print(progress.line(), flush=True)
            log.append(asdict(progress))
            nonlocal stopping
            if (drained or limit.reached()) and not stopping:
                stopping = True
                limit.record()
                # JAX's preemption service tells the other hosts, and MaxText saves and stops.
                os.kill(os.getpid(), signal.SIGTERM)

    original = metric_logger.MetricLogger
    patched: Any = metric_logger
    patched.MetricLogger = Reporter
    try:
        yield
    finally:
        patched.MetricLogger = original
        if log is not None:
            log.flush()
