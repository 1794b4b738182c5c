"""What `make` reads in this folder is data."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.project import ROOT


@pytest.mark.parametrize(
    "name", ["a`touch ran`", "a$(touch ran)", "a;touch ran;", "a'b", "$(shell touch ran)"]
)
def test_the_name_of_a_stack_file_never_runs(name: str, tmp_path: Path) -> None:
    for file in [ROOT / "Makefile", *ROOT.glob("*.mk")]:
        shutil.copy(file, tmp_path)
    (tmp_path / f"Pulumi.{name}.yaml").touch()
    (tmp_path / "Pulumi.mine.yaml").touch()
    command = ["make", "--no-print-directory", "known-stack", "STACK=other"]
    known = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert known.returncode == 2
    assert "no stack other; there are: mine\n" in known.stderr
    assert not (tmp_path / "ran").exists()


def test_what_pods_need_is_asked_for_before_the_training_environment() -> None:
    """The environment takes 8 GB and minutes."""
    (line,) = re.findall(r"(?m)^rehearse-run:(.*)$", (ROOT / "Makefile").read_text())
    needs = line.partition("##")[0].split()
    assert needs.index("can-run-pods") < needs.index("$(TRAINING)/.ready")
