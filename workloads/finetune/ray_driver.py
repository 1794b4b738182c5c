"""Training under Ray Train V2, with one worker per GPU. When one is lost, all restart from a checkpoint."""

import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import TrainingFailedError
from ray.train.torch import TorchTrainer

# Imported from where they are defined: `ray.train` chooses at run time, which a type checker cannot follow.
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig

from finetune.run.driver import Request
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.errors import InputError, PassingError
from shared.exit_codes import Exit
from shared.ray_job import WORKER_FAILURES, cause, prepare_environment
from shared.recipe_file import RecipeError
from shared.remembered import SUBMISSION, remember, remembered, submission
from shared.time_limit import Limits, TimeLimit
from shared.weather import in_one_line


def run_on_ray(recipe: Recipe, run: RunFolder, options: Namespace) -> int:
    """Train on `options.processes` workers and return the exit code.

    Raises InputError, as workers do. Ray then starts the workers once more, and they find it remembered.
    """
    prepare_environment()
    ray.init()
    trainer = TorchTrainer(
        train_on_worker,
        train_loop_config={
            "recipe": recipe,
            "storage": run.storage,
            "run": run.name,
            "limits": Limits.of(options),
            "submission": submission(),
        },
        scaling_config=ScalingConfig(
            num_workers=options.processes,
            use_gpu=options.accelerator is not None or "GPU" in ray.cluster_resources(),
            accelerator_type=options.accelerator,
        ),
        run_config=RunConfig(
            # On this node's disk. Ray would end the run at the first request that a bucket refuses, so
            # checkpoints are not reported to it.
            storage_path=str(Path(tempfile.gettempdir(), "ray-train")),
            name=run.name,
            failure_config=FailureConfig(max_failures=WORKER_FAILURES),
        ),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        print(f"error: run {run.name} failed: {cause(error)}", file=sys.stderr, flush=True)
        return Exit.FAILED
    if reason := remembered(run.folder):
        raise InputError(reason)
    if not run.finished():
        limit = TimeLimit(run.folder, Limits.of(options))
        print(f"error: {limit.sentence}", file=sys.stderr, flush=True)
        return Exit.LIMIT_REACHED
    return Exit.FINISHED


def train_on_worker(config: dict[str, Any]) -> None:
    """Train on one worker. Ray calls it on every worker, and again on all after an error of one.

    Returns when the run is finished, or when its directory says that no other start helps.
    """
    from finetune.run.training import train

    os.environ[SUBMISSION] = config["submission"]
    run = RunFolder(config["storage"], config["run"])
    # The first request to the bucket from this node. It waits for rights that are new here.
    if run.finished():
        return
    first = ray.train.get_context().get_world_rank() == 0
    limit = TimeLimit(run.folder, config["limits"], counts=first)
    if limit.reached() or remembered(run.folder):
        return
    try:
        with in_one_line():
            driver = RayDriver()
            outcome = train(config["recipe"], run, driver, limit)
    except (InputError, RecipeError) as error:
        # Any worker's: Ray starts all of them again, unless they find it.
        remember(run.folder, str(error))
        raise
    if not (outcome.finished or outcome.limit_reached):
        raise PassingError(f"training stopped after step {outcome.step} of {outcome.steps}")


class RayDriver:
    """Asks to save when Ray drains the node."""

    def begin(self) -> None:
        """Do nothing: Ray does not ask a worker to stop."""

    def requested(self) -> Request:
        """Save when the node is drained, and continue: Ray restarts the workers elsewhere once it is gone."""
        return Request.CONTINUE if ray.train.get_preemption_info() is None else Request.SAVE
