"""Ctrl-C in `make rehearse-run` while the trainer trains."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.project import ROOT
from rehearsal.control_plane.api import until
from rehearsal.running_pods.stage import TIMEOUT
from tests.control_plane.test_processes import assert_nothing_is_left, places, processes_below


def below(process: int) -> Iterator[int]:
    """All that a process has started, and what those have started, in turn."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield from (child, *below(child))


@pytest.mark.slow
def test_a_run_that_is_interrupted_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    environment, folder = places(tmp_path), tmp_path / "tmp"
    run = subprocess.Popen(
        [sys.executable, "-m", "rehearsal.running_pods", "a4-accelerate"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: f"a step; {run.poll()}", lambda: trains(folder) or run.poll() is not None, TIMEOUT)
        started = {*below(run.pid)}
        assert started and processes_below(folder)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=TIMEOUT)
    finally:
        run.kill()
    assert run.returncode == 130, errors
    assert errors.splitlines()[-1] == "rehearse-run a4-accelerate: interrupted; nothing is left behind"
    assert not [process for process in started if Path(f"/proc/{process}").exists()]
    assert_nothing_is_left(folder)


def trains(folder: Path) -> bool:
    """Whether a trainer has said a step."""
    return any("step 1/" in log.read_text() for log in folder.glob("pods-*/logs/*/finetune.log"))
