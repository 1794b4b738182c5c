"""Patches of MaxText's loop, which has no hooks: what is logged, when it stops, and what is saved."""

import math
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import ray.train
from jax.experimental import multihost_utils
from maxtext.common import checkpointing, metric_logger

from ending.errors import PassingError
from ending.files import MetricsLog
from ending.time_limit import TimeLimit
from ending.writer import not_finite
from maxtext_driver.metrics import line, progress_of
from maxtext_driver.run_folder import RunFolder


@contextmanager
def hooked(run: RunFolder, log: MetricsLog | None, limit: TimeLimit) -> Generator[None]:
    """Log to `log`, which one host has; stop at the limit, drained, told to, and before NaN is saved."""
    stopping = False

    class Reporter(metric_logger.MetricLogger):
        """Replaces MaxText's, the only place that has the figures of a step."""

        def _log_training_metrics(self, metrics: dict[str, Any], step: int) -> None:
            # Asked on every host: one that does not ask keeps the others waiting.
            drained = ray.train.get_preemption_info()
            progress = progress_of(step, self.config.steps, metrics["scalar"])
            if not (math.isfinite(progress["loss"]) and math.isfinite(progress["grad_norm"])):
                raise _not_finite(run, step + 1, log)
            if log is None:
                return
            print(line(progress), flush=True)
            log.append(progress)
            nonlocal stopping
            if (drained or limit.reached() or run.told_to_stop()) and not stopping:
                stopping = True
                limit.record()
                # JAX's preemption service tells the other hosts, and MaxText saves and stops.
                os.kill(os.getpid(), signal.SIGTERM)

        def _log_eval_metrics(self, metrics: dict[str, Any], step: int) -> None:
            loss = float(metrics["scalar"]["eval/avg_loss"])
            if log is not None:
                print(f"step {step + 1}/{self.config.steps} eval_loss {loss:.4f}", flush=True)
                log.append({"step": step + 1, "eval_loss": loss})

    def save(manager: Any, step: int, state: Any, *others: Any) -> Any:
        # The figures of this step are not known yet, and what it has spoilt must not be saved.
        if not _is_finite(state):
            raise _not_finite(run, step + 1, log)
        # All hosts end, or the others would wait for this one.
        end = run.writer.replaced() if log is not None else None
        if multihost_utils.broadcast_one_to_all(jnp.array(end is not None)):
            raise end or PassingError(f"another start of run {run.name} is its writer")
        return saved(manager, step, state, *others)

    saved = checkpointing.save_checkpoint
    try:
        with (
            patch.object(metric_logger, "MetricLogger", Reporter),
            patch.object(checkpointing, "save_checkpoint", save),
        ):
            yield
    finally:
        if log is not None:
            log.flush()


def _is_finite(state: Any) -> bool:
    """Whether weights and optimizer have numbers alone, on all hosts."""
    leaves = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return bool(jax.jit(lambda all_: jnp.stack([jnp.isfinite(each).all() for each in all_]).all())(leaves))


def _not_finite(run: RunFolder, step: int, log: MetricsLog | None) -> Exception:
    if log is None:
        return PassingError(f"loss or gradient is not finite at step {step}")
    saved = run.steps_saved()
    return not_finite(run, step, f"the checkpoint of step {saved}" if saved else None, "learning_rate")
