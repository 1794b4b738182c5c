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
from rehearsal.control_plane import ControlPlane, cluster
from rehearsal.errors import RehearsalError

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
# The command with its results elsewhere, so that it is in nobody's way.
ELSEWHERE = (
    "import pathlib, sys; from rehearsal import course; course.RESULTS = pathlib.Path(sys.argv.pop(1)); "
    "from rehearsal.__main__ import main; sys.exit(main())"
)


def processes_below(folder: Path) -> list[str]:
    """Command lines of components; each names a file in the folder of its control plane."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"{folder}/control-plane-" in line:
                found.append(line)
    return found


@pytest.fixture(autouse=True)
def folder(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where control planes of this test keep their files; the programs are built by now."""
    found = tmp_path / "tmp"
    found.mkdir()
    monkeypatch.setenv("TMPDIR", str(found))
    monkeypatch.setattr("tempfile.tempdir", None)
    return found


@pytest.fixture
def under_way(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A rehearsal on a control plane of its own, in the middle of its `up`."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", ELSEWHERE, str(tmp_path / "results"), "a4-ray", "--cluster", "--clock"],
        cwd=project.ROOT,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )
    assert process.stdout
    for line in process.stdout:
        if "a4-ray-cluster creating" in line:
            break
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_rehearsal_leaves_no_process_and_no_file(
    under_way: subprocess.Popen[str], folder: Path, number: signal.Signals
) -> None:
    assert len(processes_below(folder)) == len(PROGRAMS)
    under_way.send_signal(number)
    _, errors = under_way.communicate(timeout=60)
    assert under_way.returncode == 130
    assert errors == "rehearsal a4-ray: interrupted; nothing is left behind\n"
    assert processes_below(folder) == []
    assert list(folder.iterdir()) == []


def test_a_component_that_does_not_start_is_named_with_its_log_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "kube-scheduler"
    broken.write_text("#!/bin/sh\necho the disk is full >&2\nexit 1\n")
    broken.chmod(0o700)
    real = go_build.path_of
    monkeypatch.setattr(
        cluster.go_build, "path_of", lambda name: broken if name == "kube-scheduler" else real(name)
    )
    with pytest.raises(RehearsalError, match=r"kube-scheduler ended as it started[\s\S]*the disk is full"):
        ControlPlane().__enter__()
    assert processes_below(folder) == []
    assert list(folder.iterdir()) == []
