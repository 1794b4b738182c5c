"""Reads the metrics of a run, and stops an upload."""

import json
from pathlib import Path
from typing import Any

import pytest


def metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics, of training and of evaluation."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[float]:
    """The loss of every step of a run. Fails unless the metrics have each step once, in order."""
    lines = [line for line in metrics(run) if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["loss"] for line in lines]


def stopped_half_way(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> None:
    """An upload ends with an exception when half of its file is written."""

    def copy(reader: Any, writer: Any, _: int) -> None:
        writer.write(reader.read()[:500])
        raise error or KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfileobj", copy)
