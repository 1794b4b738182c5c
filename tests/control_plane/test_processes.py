"""The processes of the control plane: all of them end, however the rehearsal ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from engine import go_build, project
from engine.go_build import Log
from rehearsal.control_plane import ControlPlane, programs
from rehearsal.control_plane.api import until
from rehearsal.errors import RehearsalError
from rehearsal.workspace import folder_of_its_own

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "ray-operator")
# The command with its results elsewhere, so that it is in nobody's way.
ELSEWHERE = """
import pathlib, sys
from rehearsal import __main__, lifecycle
lifecycle.RESULTS = pathlib.Path(sys.argv.pop(1))
sys.exit(__main__.main())
"""


def processes_below(folder: Path) -> list[str]:
    """Command lines of the components whose control plane is in the folder: they name a file of it."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"{folder}/llm-stacks-rehearsal-control-plane-" in line:
                lines.append(line)
    return lines


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where control planes of this test keep their files. The user's home beside it is empty, too."""
    for variable, value in places(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / "tmp"


def places(tmp_path: Path) -> dict[str, str]:
    """Environment variables that lead to new folders for temporary files and for the user's home."""
    folders = {"TMPDIR": tmp_path / "tmp", "HOME": tmp_path / "home"}
    for folder in folders.values():
        folder.mkdir()
    return {variable: str(folder) for variable, folder in folders.items()}


def assert_nothing_is_left(folder: Path) -> None:
    """No process, no temporary file, and nothing in the user's home."""
    # A process that is killed needs a moment to end.
    until(lambda: f"{processes_below(folder)} to end", lambda: not processes_below(folder), 5)
    assert list(folder.iterdir()) == []
    assert list(folder.with_name("home").rglob("*")) == []


@pytest.fixture
def rehearsal(log: Log, folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A rehearsal on a control plane of its own, beside the one of the other tests."""
    go_build.build(programs.MODULES, log)
    process = subprocess.Popen(
        [
            sys.executable,
            "-u",
            "-c",
            ELSEWHERE,
            str(tmp_path / "results"),
            "a4-ray",
            "--cluster",
            "--verbose",
        ],
        cwd=project.ROOT,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["as it starts", "in its up"])
def test_an_interrupted_rehearsal_leaves_no_process_and_no_file(
    rehearsal: subprocess.Popen[str], folder: Path, moment: str, number: signal.Signals
) -> None:
    if moment == "as it starts":
        until(lambda: "etcd", lambda: any("--data-dir" in line for line in processes_below(folder)), 60)
    else:
        assert rehearsal.stdout and any("a4-ray-cluster creating" in line for line in rehearsal.stdout)
        assert len(processes_below(folder)) == len(PROGRAMS)
    rehearsal.send_signal(number)
    _, errors = rehearsal.communicate(timeout=60)
    assert rehearsal.returncode == 130
    assert errors == "rehearsal a4-ray: interrupted; nothing is left behind\n"
    assert_nothing_is_left(folder)


def test_what_a_killed_rehearsal_leaves_is_ended_and_swept_by_the_next(
    rehearsal: subprocess.Popen[str], folder: Path
) -> None:
    assert rehearsal.stdout and any("a4-ray-cluster creating" in line for line in rehearsal.stdout)
    rehearsal.kill()
    rehearsal.wait()
    assert len(processes_below(folder)) == len(PROGRAMS)
    with folder_of_its_own("another"):
        pass
    assert_nothing_is_left(folder)


def test_a_component_that_does_not_start_is_named_with_its_log_and_leaves_nothing(
    plane: ControlPlane, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "kube-scheduler"
    broken.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo v1.36.1 && exit\necho the disk is full >&2\nexit 1\n"
    )
    broken.chmod(0o700)
    real = go_build.path_of
    monkeypatch.setattr(go_build, "path_of", lambda name: broken if name == broken.name else real(name))
    with pytest.raises(RehearsalError, match=r"kube-scheduler ended as it started[\s\S]*the disk is full"):
        ControlPlane().__enter__()
    assert_nothing_is_left(folder)
