"""What is changed in MaxText's loop: what it logs, and what it saves."""

import json
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
