"""Runs MaxText's own training program on every worker, with this package's metrics."""

import os
import socket
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import ray.train

from maxtext_driver.recipe import WEIGHTS, Recipe
from maxtext_driver.run_folder import RECORD, Placement, RunFolder
from shared.errors import InputError, PassingError
from shared.exporter import Exporter
from shared.files import MetricsLog
from shared.remembered import remember, remembered
from shared.time_limit import TimeLimit


def train_on_worker(config: dict[str, Any]) -> None:
    """Train to the end, the limit or a SIGTERM. After an error Ray restarts all workers.

    When a node is drained, save and wait until Ray restarts all workers, which it does not count. After a
    SIGTERM to a host, return: the driver then starts all workers again.
    """
    recipe: Recipe = config["recipe"]
    placement: Placement = config["placement"]
    run = RunFolder(Path(config["output"]), config["run"])
    rank = ray.train.get_context().get_world_rank()
    print(f"worker {rank} is process {os.getpid()} on {socket.gethostname()}", flush=True)
    # The first request to the bucket from this host. It waits for rights that are new here.
    if not run.first_access((run.path / RECORD).exists):
        raise RuntimeError(f"{run.path} is not the driver's; every host must mount the same bucket there")
    limit = TimeLimit(run, config["limits"], counts=rank == 0)
    if limit.reached() or remembered(run):
        return
    if rank == 0:
        run.first_access(run.writer.begin)
    try:
        with limit.counted():
            train(recipe, run, placement, limit)
    except InputError as error:
        # Any host may meet it, such as a row that cannot be read. The others wait for that host.
        remember(run, str(error))
        raise
    drained = ray.train.get_preemption_info()
    # All stop after the same step, and rank 0, which counts the time, knows why.
    if rank:
        return
    saved, steps = run.steps_saved(), recipe.steps
    if saved >= steps:
        run.writer.check()
        run.finish(steps)
    elif drained is not None and not limit.reached():
        print(f"saved after step {saved} of {steps}: a host is told to go, and all start again", flush=True)
        # An error would count as a lost worker, and a return would have the driver ask for the host again.
        threading.Event().wait()


def train(recipe: Recipe, run: RunFolder, placement: Placement, limit: TimeLimit) -> None:
    """Run MaxText's training from the newest checkpoint to the last step, or to the limit."""
    # Imported here because JAX must not look for devices before Ray has joined the processes.
    import jax
    from absl import logging
    from maxtext.trainers.pre_train import train as pre_train

    from maxtext_driver.configuration import maxtext_arguments
    from maxtext_driver.hooks import hooked
    from maxtext_driver.packs import packs_of

    # Orbax logs some forty lines about every checkpoint.
    logging.set_verbosity(logging.WARNING)
    saved = run.steps_saved()
    if limit.counts:
        print(f"training from step {saved} of {recipe.steps} on {jax.device_count()} chips", flush=True)
    arguments = maxtext_arguments(
        recipe,
        # MaxText prefers the run's own checkpoint.
        **({WEIGHTS: str(run.weights / "0" / "items")} if recipe.weights else {}),
        hardware="tpu" if placement.topology else "cpu",
        # MaxText would count the slices of the devices. If Ray joined fewer, it says so instead of training.
        num_slices=placement.slices,
        base_output_directory=str(run.output),
        run_name=run.name,
        enable_checkpointing=True,
        # At a SIGTERM to one host all hosts save after the same step.
        enable_autocheckpoint=True,
        # Ray has done so already.
        skip_jax_distributed_system=True,
    )
    log = MetricsLog(run, from_step=saved, exporter=Exporter(run.name)) if limit.counts else None
    rows = packs_of(run) if recipe.of_conversations else nullcontext()
    with hooked(run, log, limit), rows:
        try:
            pre_train.main(arguments)
        except RuntimeError as error:
            # MaxText wraps the error that ends a save.
            if isinstance(error.__cause__, InputError | PassingError):
                raise error.__cause__ from None
            raise
