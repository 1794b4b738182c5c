"""The dollars so far in the log of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from finetune.run.callbacks import ShowProgress
from finetune.storage.folder import Folder
from shared import price
from shared.files import MetricsLog
from shared.time_limit import NO_LIMIT, TimeLimit

LOGS = {"loss": 1.5, "learning_rate": 2e-4, "grad_norm": 0.7, "mean_token_accuracy": 0.5, "num_tokens": 100}


def log_of(folder: Folder) -> dict[str, float]:
    """What a step writes in a run that has trained for half an hour, in earlier tries too."""
    folder.write_text("time.json", '{"seconds": 1800.0}')
    log = MetricsLog(folder, 0)
    state: Any = type("State", (), {"global_step": 1, "max_steps": 2, "epoch": 0.5})
    nothing: Any = None
    ShowProgress(log, folder, TimeLimit(folder, NO_LIMIT)).on_log(nothing, state, nothing, logs=LOGS)
    log.flush()
    return json.loads(folder.read_text(MetricsLog.FILE) or "")


@pytest.mark.parametrize(
    ("per_hour", "figures", "words"),
    [
        ("3.5", {"dollars": 1.75}, " dollars 1.75"),
        ("over 3.5", {"dollars_over": 1.75}, " dollars over 1.75"),
        ("2469.13", {"dollars": 1234.565}, " dollars 1,234.57"),
        ("", {}, ""),
        ("much", {}, ""),
    ],
)
def test_a_step_tells_the_dollars_of_all_tries_where_the_stack_knows_a_price(
    per_hour: str,
    figures: dict[str, float],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(price.VARIABLE, per_hour)
    line = log_of(Folder(str(tmp_path)))
    assert {name: line[name] for name in line if name.startswith("dollars")} == pytest.approx(figures)
    assert capsys.readouterr().out.strip().partition(" left 0:00")[2] == words.rstrip()
