"""Ray Train V2: the same training, one worker per GPU, restarted from a checkpoint when one is lost."""

import os
import sys
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint, TrainingFailedError
from ray.train.torch import TorchTrainer

# By their own path: `ray.train` chooses what these names mean at run time, out of a type checker's sight.
from ray.train.v2.api.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

from finetune.checkpoint import RunFolder, checkpoint_name
from finetune.data import check_data
from finetune.driver import Wish
from finetune.errors import EXIT_FAILED, InputError
from finetune.model import check_model
from finetune.recipe import Recipe

# Losses of a worker that a run survives; drained nodes are counted apart and without limit.
WORKER_FAILURES = 3
# Seconds until all workers are placed: replacing a lost A4 node takes many minutes, Ray's default is one.
WORKER_START_TIMEOUT = 1800


def run_on_ray(recipe: Recipe, storage: str, run_name: str, workers: int, accelerator: str | None) -> int:
    """Train on `workers` workers; returns the exit code.

    Raises InputError, before any worker is asked for, when there is nothing to train on or nowhere to write.
    """
    if recipe.training.sharding != "none":
        raise InputError(
            f"training.sharding {recipe.training.sharding} is for python -m finetune torchrun; "
            "on Ray it must be none"
        )
    run = RunFolder(storage, run_name)
    if run.claim(recipe, workers):
        result = recipe.training.result
        print(f"run {run_name} is finished already, its {result} is in {run.folder.uri}/{result}", flush=True)
        return 0
    check_model(recipe.model.name)
    check_data(recipe.data)
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(WORKER_START_TIMEOUT))
    # Ray would pass on what a worker prints twice: as its output and as a log record.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")
    ray.init()
    trainer = TorchTrainer(
        train_on_worker,
        train_loop_config={"recipe": recipe, "storage": run.storage, "run": run_name},
        scaling_config=ScalingConfig(
            num_workers=workers,
            use_gpu=accelerator is not None or "GPU" in ray.cluster_resources(),
            accelerator_type=accelerator,
        ),
        run_config=RunConfig(
            # The run's own directory: Ray finds there what an earlier job of the same name has reported.
            storage_path=run.storage,
            name=run_name,
            failure_config=FailureConfig(max_failures=WORKER_FAILURES),
            checkpoint_config=CheckpointConfig(num_to_keep=recipe.training.checkpoints_to_keep),
        ),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        print(f"error: run {run_name} failed: {_cause(error)}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    # Ray deletes old checkpoints as new ones are reported, but not those whose worker was lost just then.
    run.prune_checkpoints(recipe.training.checkpoints_to_keep)
    print(f"run {run_name} is finished: {run.folder.uri}/{recipe.training.result}", flush=True)
    return 0


def train_on_worker(config: dict[str, Any]) -> None:
    """What every worker runs."""
    from finetune.training import train

    run = RunFolder(config["storage"], config["run"])
    outcome = train(config["recipe"], run, RayDriver(run))
    if not outcome.finished:
        raise RuntimeError(f"training stopped after step {outcome.step} of {outcome.steps}")


class RayDriver:
    """Reports every checkpoint to Ray Train, which also deletes the old ones."""

    def __init__(self, run: RunFolder):
        self._run = run

    def wish(self) -> Wish:
        """A node that is drained: save now and go on; Ray restarts the workers elsewhere when it is gone."""
        return Wish.GO_ON if ray.train.get_preemption_info() is None else Wish.SAVE

    def save_checkpoint(self, step: int, metrics: dict[str, Any], files: Path | None) -> None:
        """Every rank must report; only rank 0 carries files."""
        ray.train.report(
            metrics,
            checkpoint=Checkpoint.from_directory(files) if files else None,
            checkpoint_dir_name=checkpoint_name(step),
            checkpoint_upload_fn=self._upload,
        )

    def _upload(self, checkpoint: Checkpoint, name: str) -> Checkpoint:
        """Our own upload instead of Ray's copy: it ends with the marker of a complete checkpoint."""
        self._run.save_checkpoint(Path(checkpoint.path), name)
        storage = ray.train.get_context().get_storage()
        return Checkpoint(storage.build_checkpoint_path_from_name(name), storage.storage_filesystem)


def _cause(error: TrainingFailedError) -> str:
    """The first worker's own error in one line, not the stack of all sixteen."""
    failures = getattr(error, "worker_failures", {})
    first = failures[min(failures)] if failures else error
    return " ".join(str(first).split())[-600:]
