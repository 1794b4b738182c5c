"""The launcher of a user's own program: its three lines, what the program sees, and how it ends."""

import os
import sys
from pathlib import Path

import pytest
from launches import kept_signals

from launch.__main__ import main

SEEN = """
import os, pathlib, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "RUN_FOLDER", "PET_NNODES")
seen = " ".join(os.environ.get(name, "-") for name in names)
pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(seen)
sys.exit(int(sys.argv[2]))
"""


def launched(folder: Path, code: int, *options: str) -> int:
    """The exit code of the launcher around a program with two processes, which write what they see."""
    (folder / "program.py").write_text(SEEN)
    program = [sys.executable, str(folder / "program.py"), str(folder), str(code)]
    with kept_signals():
        try:
            return main(["--run=mine", "--processes=2", *options, "--", *program])
        except SystemExit as end:
            return int(str(end.code))


@pytest.fixture(autouse=True)
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the manifest sets. The home folder is on an empty volume."""
    monkeypatch.setenv("RUN_FOLDER", "gs://bucket/mine")
    monkeypatch.setenv("PET_NNODES", "2")
    monkeypatch.setenv("HOME", str(tmp_path / "home/user"))
    # The launcher sets these variables in its own process, which is this one.
    for name in ("OMP_NUM_THREADS", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"):
        monkeypatch.setenv(name, "1")


def test_each_process_knows_its_rank_and_the_run_s_folder_and_no_variable_of_torchrun(tmp_path: Path) -> None:
    assert launched(tmp_path, 0) == 0
    assert [(tmp_path / rank).read_text() for rank in "01"] == [
        "0 0 2 gs://bucket/mine -",
        "1 1 2 gs://bucket/mine -",
    ]
    assert Path.home().is_dir() and "PET_NNODES" not in os.environ


def test_the_log_begins_with_how_the_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launched(tmp_path, 0, "--stop-exit-codes=2,3", "--grace-seconds=600", "--tries=3")
    assert capsys.readouterr().out.splitlines()[:3] == [
        "run mine: every try finds the same RUN_FOLDER, gs://bucket/mine",
        "SIGTERM: save within 600 seconds and exit with 143, which is never counted",
        "exit codes that end the run: 0, 2, 3. After another one the run is tried again, 3 times",
    ]


@pytest.mark.parametrize(
    ("ended", "options", "code"),
    [(2, ("--stop-exit-codes=2",), 2), (2, (), 1), (7, ("--stop-exit-codes=2",), 1), (143, (), 143)],
)
def test_the_exit_code_tells_whether_another_try_helps(
    ended: int, options: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    assert launched(tmp_path, ended, *options) == code
