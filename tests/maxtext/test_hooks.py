"""What is changed in MaxText's loop: what it logs, and what it saves."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maxtext_driver.run_folder import RunFolder
from shared.errors import InputError, PassingError
from shared.files import MetricsLog
from shared.remembered import SUBMISSION
from shared.time_limit import NO_LIMIT, TimeLimit


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run with a checkpoint of its first four steps, which this process writes."""
    (tmp_path / "mine" / "checkpoints" / "3").mkdir(parents=True)
    folder = RunFolder(tmp_path, "mine")
    folder.writer.begin()
    return folder


def save(run: RunFolder, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether MaxText is let save a state after its eighth step."""
    from maxtext.common import checkpointing

    from maxtext_driver.hooks import hooked

    monkeypatch.setattr(checkpointing, "save_checkpoint", lambda *_: True)
    with hooked(run, MetricsLog(run, 4), TimeLimit(run, NO_LIMIT)):
        return checkpointing.save_checkpoint(None, 7, state)


def test_a_state_that_is_no_number_is_not_saved_and_the_second_time_is_final(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax.numpy as jnp

    count, weights = jnp.arange(2), jnp.array([1.0, 2.0])
    assert save(run, {"count": count, "weights": weights}, monkeypatch)
    spoilt = {"count": count, "weights": weights / 0}
    with pytest.raises(PassingError, match="not finite at step 8; the checkpoint of step 4 is kept"):
        save(run, spoilt, monkeypatch)
    with pytest.raises(InputError, match=r"at step 8, for the second time .*: lower learning_rate"):
        save(run, spoilt, monkeypatch)


def test_nothing_is_saved_once_another_start_is_the_writer(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax.numpy as jnp

    monkeypatch.setenv(SUBMISSION, "another")
    RunFolder(run.output, "mine").writer.begin()
    with pytest.raises(InputError, match="this start publishes nothing more"):
        save(run, {"weights": jnp.zeros(1)}, monkeypatch)


def test_the_loss_of_an_evaluation_is_in_the_metrics(run: RunFolder) -> None:
    from maxtext.common import metric_logger

    from maxtext_driver.hooks import hooked

    logger: Any = SimpleNamespace(config=SimpleNamespace(steps=12))
    with hooked(run, MetricsLog(run, 4), TimeLimit(run, NO_LIMIT)):
        metric_logger.MetricLogger._log_eval_metrics(logger, {"scalar": {"eval/avg_loss": 2.5}}, 7)
    assert json.loads((run.path / "metrics.jsonl").read_text()) == {"step": 8, "eval_loss": 2.5}


@contextmanager
def loop(run: RunFolder) -> Generator[None]:
    """What MaxText does with a batch, in a run that has saved four steps."""
    from maxtext.common import data_loader

    from maxtext_driver.hooks import hooked

    with hooked(run, MetricsLog(run, 4), TimeLimit(run, NO_LIMIT)):
        config = SimpleNamespace(steps=9, num_epoch=1)
        with data_loader.loader_exception_guard(config):
            pass
        with data_loader.loader_exception_guard(config):
            yield


def batch_of(error: Exception) -> None:
    """Read a batch whose rows raise the error."""
    import jax
    import numpy
    from jax.sharding import Mesh
    from maxtext.input_pipeline.multihost_dataloading import MultiHostDataLoadIterator

    def fail(_: int) -> None:
        raise error

    iterator: Any = MultiHostDataLoadIterator(map(fail, [0]), Mesh(numpy.array(jax.devices()), ("data",)))
    # Otherwise MaxText looks for processes to end when the iterator goes.
    iterator.close = lambda: None
    next(iterator)


def test_rows_that_end_before_the_last_step_are_bad_input_with_the_number_of_steps(run: RunFolder) -> None:
    message = "enough for 5 of 9 steps, with num_epoch 1: set steps to 5, or a higher num_epoch"
    with pytest.raises(InputError, match=message), loop(run):
        raise StopIteration


def test_a_row_that_cannot_be_read_is_bad_input_with_its_reason(run: RunFolder) -> None:
    with pytest.raises(InputError, match="rows of the data: ValueError: no role"), loop(run):
        batch_of(ValueError("no role"))


def test_a_hub_that_does_not_answer_for_rows_may_pass(run: RunFolder) -> None:
    with pytest.raises(PassingError, match="from the network"), loop(run):
        batch_of(ConnectionError("reset"))


def test_the_rows_of_an_evaluation_may_end(run: RunFolder) -> None:
    from maxtext_driver.hooks import hooked

    with hooked(run, MetricsLog(run, 4), TimeLimit(run, NO_LIMIT)), pytest.raises(StopIteration):
        batch_of(StopIteration())
