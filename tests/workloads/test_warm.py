"""The process that programs of the tests are forked from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_program_has_the_temporary_folder_of_the_test_that_starts_it(
    warm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tests that run at the same time share the process, and must not share the folder of a run."""
    program = tmp_path / "program.py"
    program.write_text("import tempfile\n\nprint(tempfile.gettempdir())\n")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, warm, str(program)], env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path)
