"""Trains under Ray Train's JaxTrainer, with one worker per host. When one is lost, all restart."""

import signal
import sys

import ray
from ray.exceptions import RayTaskError
from ray.train import TrainingFailedError

# Imported from where they are defined: `ray.train` chooses at run time, which a type checker cannot follow.
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.jax import JaxConfig, JaxTrainer
from ray.util.tpu import get_tpu_num_slices_for_workers

from maxtext_driver.conversation_rows import RECORD, with_steps
from maxtext_driver.recipe import Recipe
from maxtext_driver.rows import check_rows
from maxtext_driver.run_folder import STOP, Placement, RunFolder
from maxtext_driver.worker import train_on_worker
from shared.errors import InputError, PassingError
from shared.exit_codes import Exit
from shared.ray_job import WORKER_FAILURES, cause, prepare_environment
from shared.remembered import SUBMISSION, remembered, submission
from shared.time_limit import NO_LIMIT, Limits, TimeLimit


def run_on_ray(recipe: Recipe, run: RunFolder, placement: Placement, limits: Limits = NO_LIMIT) -> int:
    """Train on the workers of `placement`, within `limits`, and return the exit code.

    A SIGTERM to a worker makes all workers save and return, which Ray does not count as a failure. They are
    started again here. A SIGTERM to this process, as from `ray job stop`, ends the run.

    Raises:
        InputError: The slices have another number of hosts, the run another recipe or slices, or its rows
            cannot be trained. This is checked before any worker is requested. Or a worker found that the
            input is wrong.
        PassingError: The workers failed.
    """
    scaling = _scaling(placement)
    ended = run.first_access(lambda: _ended(recipe, run, placement, limits))
    to_export = recipe.weights and not run.exported.exists()
    if ended is not None and not (run.finished() and to_export):
        return ended
    recipe = run.pinned(recipe)
    if not run.finished():
        run.first_access(lambda: check_rows(recipe, placement.chips))
    prepare_environment()
    ray.init(ignore_reinit_error=True)
    (run.path / STOP).unlink(missing_ok=True)
    # After ray.init, whose own handler ends the process.
    signal.signal(signal.SIGTERM, lambda *_: run.write_text(STOP, ""))
    if recipe.of_conversations and not run.read_text(RECORD):
        _on_a_host(recipe, run, "make_rows")
    recipe = with_steps(recipe, run, placement.chips)
    if recipe.weights and not (run.steps_saved() or (run.weights / "0").exists()):
        _on_a_host(recipe, run, "fetch_weights")
    saved = -1
    while not (run.finished() or run.told_to_stop() or TimeLimit(run, limits).reached()):
        if saved == (saved := run.steps_saved()):
            raise PassingError(f"run {run.name} stopped after step {saved} of {recipe.steps}")
        _train(run, _trainer(recipe, run, placement, scaling, limits))
    if run.told_to_stop() and not run.finished():
        print(
            f"run {run.name} was stopped; the same command goes on from step {run.steps_saved()}", flush=True
        )
        return Exit.INTERRUPTED
    if not run.finished():
        return _limit_reached(run, limits)
    if to_export:
        _on_a_host(recipe, run, "export")
    print(f"run {run.name} is finished: {run.path}", flush=True)
    return Exit.FINISHED


def _train(run: RunFolder, trainer: JaxTrainer) -> None:
    """Start the workers, and wait until they have finished, saved or failed."""
    failure = None
    try:
        trainer.fit()
    except TrainingFailedError as error:
        failure = error
    if reason := remembered(run):
        raise InputError(reason)
    if failure:
        raise PassingError(f"run {run.name} failed: {cause(failure)}")


def _on_a_host(recipe: Recipe, run: RunFolder, action: str) -> None:
    """Call a function of the module hugging_face on CPUs of a host, which has the memory for it."""
    environment = _environment(recipe, Placement(workers=1))
    # A weight is stored in as many pieces as there are devices. A host reads some, and an export has all.
    devices = 1 if run.finished() else 16
    environment["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={devices}"

    @ray.remote(max_retries=0, runtime_env={"env_vars": environment})
    def call() -> None:
        from maxtext_driver import hugging_face

        getattr(hugging_face, action)(recipe, run)

    try:
        ray.get(call.remote())
    except RayTaskError as error:
        raise error.cause from None


def _trainer(
    recipe: Recipe, run: RunFolder, placement: Placement, scaling: ScalingConfig, limits: Limits
) -> JaxTrainer:
    return JaxTrainer(
        train_on_worker,
        train_loop_config={
            "recipe": recipe,
            "output": str(run.output),
            "run": run.name,
            "placement": placement,
            "limits": limits,
        },
        # On CPU too: with it Ray joins the workers' JAX processes into one.
        jax_config=JaxConfig(use_tpu=True),
        scaling_config=scaling,
        run_config=RunConfig(
            storage_path=str(run.path),
            name="ray",
            failure_config=FailureConfig(max_failures=WORKER_FAILURES),
            worker_runtime_env={"env_vars": _environment(recipe, placement)},
        ),
    )


def _ended(recipe: Recipe, run: RunFolder, placement: Placement, limits: Limits) -> int | None:
    """Claim the run. Returns the exit code of a run that does not train any more, else None."""
    run.claim(recipe, placement)
    recipe = with_steps(recipe, run, placement.chips)
    if not run.finished() and run.steps_saved() >= recipe.steps:
        # A worker was lost between the last checkpoint and the marker.
        run.finish(recipe.steps)
    if run.finished():
        print(f"run {run.name} is finished already: {run.path}", flush=True)
        return Exit.FINISHED
    return _limit_reached(run, limits) if TimeLimit(run, limits).reached() else None


def _limit_reached(run: RunFolder, limits: Limits) -> int:
    print(f"error: {TimeLimit(run, limits).sentence}", file=sys.stderr, flush=True)
    return Exit.LIMIT_REACHED


def _scaling(placement: Placement) -> ScalingConfig:
    """The hosts that Ray reserves. Raises InputError when the slices have another number of them.

    Ray takes as many slices as there are hosts for, and tells each worker its slice: MEGASCALE_SLICE_ID.
    """
    if placement.topology is None:
        return ScalingConfig(num_workers=placement.workers)
    options = f"--workers {placement.workers} with --topology {placement.topology}"
    try:
        scaling = ScalingConfig(
            num_workers=placement.workers,
            use_tpu=True,
            topology=placement.topology,
            accelerator_type=placement.accelerator,
        )
    except ValueError as error:
        raise InputError(f"{options}: {' '.join(str(error).split())}") from error
    slices = get_tpu_num_slices_for_workers(
        placement.topology, placement.accelerator or "", placement.workers
    )
    if slices != placement.slices:
        raise InputError(f"{options} are the hosts of --slices {slices}, not of --slices {placement.slices}")
    return scaling


def _environment(recipe: Recipe, placement: Placement) -> dict[str, str]:
    """The environment of every worker process."""
    return {
        **recipe.environment,
        # cpu too, because that backend holds activations that are moved to the host.
        "JAX_PLATFORMS": "tpu,cpu" if placement.topology else "cpu",
        SUBMISSION: submission(),
        # Warnings and errors alone, since XLA logs much about its coordination service.
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
