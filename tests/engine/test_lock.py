"""One process at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.lock import held
from engine.project import ROOT

HOLD = (
    "import pathlib, sys; from engine.lock import held\n"
    "with held(pathlib.Path(sys.argv[1]), sys.exit): print('held', flush=True); sys.stdin.read()"
)


def test_a_lock_is_told_to_others_and_dies_with_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "made"

    def busy() -> None:
        raise TimeoutError

    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError), held(folder, busy):
            pass
        holder.kill()
        with held(folder, holder.wait):
            assert list(folder.iterdir()) == []
