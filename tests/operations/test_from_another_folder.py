"""The commands run from another folder than the clone's, by the path of their own."""

import subprocess
import sys
from pathlib import Path

from engine.project import ROOT


def test_the_commands_run_from_any_folder_by_their_path(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "operations"), "explain", "--stack", "mine", "up.log"]
    (tmp_path / "up.log").write_text("Updating (mine):\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("operations explain: there is no error in it")
