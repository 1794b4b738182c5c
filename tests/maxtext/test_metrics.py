"""The metrics file of a run."""

import json
from pathlib import Path

from maxtext_driver.metrics import MetricsLog, Progress


def progress(step: int) -> Progress:
    return Progress(
        step=step,
        steps=10,
        loss=2.0,
        learning_rate=1e-4,
        grad_norm=1.0,
        seconds=90.0,
        tflops_per_second_per_chip=419.5,
        tokens_per_second_per_chip=7243.4,
    )


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_run_takes_back_the_lines_of_the_steps_that_it_repeats(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, from_step=0)
    for step in (1, 2, 3):
        log.append(progress(step))
    log.flush()
    log = MetricsLog(tmp_path, from_step=2)
    log.append(progress(3))
    log.flush()
    assert steps(tmp_path) == [1, 2, 3]


def test_the_file_is_written_at_most_once_a_second_and_misses_nothing_at_the_end(tmp_path: Path) -> None:
    now = 0.0
    log = MetricsLog(tmp_path, from_step=0, clock=lambda: now)
    log.append(progress(1))
    log.append(progress(2))
    assert steps(tmp_path) == [1]
    now = 1.0
    log.append(progress(3))
    assert steps(tmp_path) == [1, 2, 3]
    log.append(progress(4))
    log.flush()
    assert steps(tmp_path) == [1, 2, 3, 4]


def test_the_line_for_people_tells_speed_per_chip_and_the_time_left() -> None:
    assert progress(8).line().endswith("TFLOP/s/chip 419.5 tokens/s/chip 7243 left 3:00")
