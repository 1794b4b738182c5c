"""Patches MaxText's loop, which has no hooks, to decide what it logs, when it stops and what it saves."""

import math
import os
import signal
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import ray.train
from jax.experimental import multihost_utils
from maxtext.common import checkpointing, data_loader, metric_logger
from maxtext.input_pipeline import input_pipeline_interface, multihost_dataloading

from maxtext_driver.metrics import line, progress_of
from maxtext_driver.run_folder import RunFolder
from shared import price
from shared.errors import InputError, PassingError
from shared.files import MetricsLog
from shared.time_limit import TimeLimit
from shared.weather import in_one_line
from shared.writer import not_finite

# What cannot be read, for messages.
ROWS = "rows of the data"


@contextmanager
def hooked(run: RunFolder, log: MetricsLog | None, limit: TimeLimit) -> Generator[None]:
    """Patch MaxText's loop within the block.

    It logs to `log`, which only one host has. It saves and stops at the limit, when a host is drained, and
    when the driver was told to end. It raises an error before a state with NaN is saved.

    Raises InputError when the rows end before the last step, or cannot be read. MaxText would stop as if it
    had finished.
    """
    iterator = multihost_dataloading.MultiHostDataLoadIterator
    try:
        with (
            patch.object(metric_logger, "MetricLogger", _reporter(run, log, limit)),
            patch.object(checkpointing, "save_checkpoint", _saver(run, log, limit)),
            patch.object(data_loader, "loader_exception_guard", _guard(run.steps_saved())),
            patch.object(iterator, "__next__", _reading(iterator.__next__)),
            patch.object(
                input_pipeline_interface,
                "create_data_iterator",
                _reading(input_pipeline_interface.create_data_iterator),
            ),
        ):
            yield
    finally:
        if log is not None:
            log.flush()


def _reporter(run: RunFolder, log: MetricsLog | None, limit: TimeLimit) -> type:
    """A class that replaces MaxText's logger, the only place that has the figures of a step."""
    stopping = False

    class Reporter(metric_logger.MetricLogger):
        def _log_training_metrics(self, metrics: dict[str, Any], step: int) -> None:
            # Every host asks, since one that does not keeps the others waiting.
            drained = ray.train.get_preemption_info()
            limited = limit.reached()
            limit.progress()
            progress = progress_of(step, self.config.steps, metrics["scalar"])
            if not (math.isfinite(progress["loss"]) and math.isfinite(progress["grad_norm"])):
                raise _not_finite(run, step + 1, log)
            if log is None:
                return
            spent = price.spent(limit.seconds)
            print(f"{line(progress)}{price.words(spent)}", flush=True)
            log.append(progress | spent)
            nonlocal stopping
            if (drained or limited or run.told_to_stop()) and not stopping:
                stopping = True
                limit.record()
                # JAX's preemption service tells the other hosts, and MaxText saves and stops.
                os.kill(os.getpid(), signal.SIGTERM)

        def _log_eval_metrics(self, metrics: dict[str, Any], step: int) -> None:
            loss = float(metrics["scalar"]["eval/avg_loss"])
            if log is not None:
                print(f"step {step + 1}/{self.config.steps} eval_loss {loss:.4f}", flush=True)
                log.append({"step": step + 1, "eval_loss": loss})

    return Reporter


def _saver(run: RunFolder, log: MetricsLog | None, limit: TimeLimit) -> Callable[..., Any]:
    """A function that replaces MaxText's: it saves only a finite state, and only as the run's writer."""
    original = checkpointing.save_checkpoint

    def save(manager: Any, step: int, state: Any, *others: Any) -> Any:
        # The figures of this step are not known yet, and a state that it has damaged must not be saved.
        if not _is_finite(state):
            raise _not_finite(run, step + 1, log)
        # All hosts end, because the others would wait for this one.
        end = run.writer.replaced() if log is not None else None
        if multihost_utils.broadcast_one_to_all(jnp.array(end is not None)):
            raise end or PassingError(f"another start of run {run.name} is its writer")
        saved = original(manager, step, state, *others)
        limit.progress()
        return saved

    return save


def _guard(first: int) -> Callable[[Any], AbstractContextManager[None]]:
    """A function that replaces MaxText's guard of a batch. Its first batch is the one of step `first` + 1."""
    read = first

    @contextmanager
    def guard(config: Any) -> Generator[None]:
        nonlocal read
        try:
            yield
        except StopIteration as end:
            fewer = f"set steps to {read}, or" if read else "set"
            raise InputError(
                f"the rows are enough for {read} of {config.steps} steps, with num_epoch {config.num_epoch}: "
                f"{fewer} a higher num_epoch to repeat the rows, or name more files"
            ) from end
        read += 1

    return guard


def _reading(action: Callable[..., Any]) -> Callable[..., Any]:
    """The function with errors of one line. The end of the rows stays StopIteration."""

    @wraps(action)
    def read(*arguments: Any, **options: Any) -> Any:
        with in_one_line(ROWS), suppress(StopIteration):
            return action(*arguments, **options)
        raise StopIteration

    return read


def _is_finite(state: Any) -> bool:
    """Whether all numbers of weights and optimizer are finite, on all hosts."""
    leaves = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    def all_finite(arrays: list[Any]) -> Any:
        return jnp.stack([jnp.isfinite(array).all() for array in arrays]).all()

    return bool(jax.jit(all_finite)(leaves))


def _not_finite(run: RunFolder, step: int, log: MetricsLog | None) -> Exception:
    if log is None:
        return PassingError(f"loss or gradient is not finite at step {step}")
    saved = run.steps_saved()
    return not_finite(run, step, f"the checkpoint of step {saved}" if saved else None, "learning_rate")
