"""The metrics of a run."""

import re
import socket
import urllib.request
from pathlib import Path

import pytest

from maxtext_driver.metrics import FIGURES, line, progress_of
from shared.exporter import Exporter

ROOT = Path(__file__).parents[2]


def test_the_line_for_people_tells_speed_per_chip_and_the_time_left() -> None:
    figures = (2.0, 1e-4, 1.0, 90.0, 419.5, 7243.4)
    progress = progress_of(7, 10, dict(zip(FIGURES.values(), figures, strict=True)))
    assert line(progress) == (
        "step 8/10 loss 2.0000 lr 1.00e-04 grad_norm 1.000 seconds 90.000 TFLOP/s/chip 419.5 "
        "tokens/s/chip 7243 left 3:00"
    )


@pytest.mark.parametrize("charts", ["training", "tokens-per-chip"])
def test_the_driver_shows_prometheus_what_the_dashboard_asks(
    charts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("METRICS_PORT", str(port))
    exporter = Exporter("mine")
    exporter.show(progress_of(0, 10, dict.fromkeys(FIGURES.values(), 1.0)))
    exporter.show({"step": 1, "eval_loss": 2.0})
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    queries = (ROOT / f"components/monitoring/dashboards/{charts}.yaml").read_text()
    asked = {*re.findall(r"(training_\w+)\{", queries)}
    assert asked and asked <= {*re.findall(r"^(training_\w+)\{", page, re.MULTILINE)}
