"""Copies of the program, which a test may edit and rehearse."""

import shutil
from pathlib import Path

from engine.project import ROOT

_FILES = ("__main__.py", "Pulumi.yaml", "Pulumi.*.yaml")
_FOLDERS = ("cloud", "components", "stacks", "workloads")


def copy_of_program(folder: Path) -> Path:
    """Copies the program and its stack files into a folder, and returns the folder."""
    folder.mkdir(exist_ok=True)
    for pattern in _FILES:
        for path in ROOT.glob(pattern):
            shutil.copyfile(path, folder / path.name)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder
