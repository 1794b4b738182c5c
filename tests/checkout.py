"""Copies of the program or of the whole checkout, which a test may edit and run.

A file keeps its time in a copy, and comes with what Python has compiled of it. So a copy's programs compile
only what a test has edited.
"""

import shutil
from pathlib import Path

from engine.project import ROOT
from tests.checkout_files import checkout_files

_FILES = ("__main__.py", "Pulumi.yaml", "Pulumi.*.yaml")
_FOLDERS = ("cloud", "components", "stacks", "workloads")


def copy_of_program(folder: Path) -> Path:
    """Copies the program and its stack files into a folder, and returns the folder."""
    folder.mkdir(exist_ok=True)
    for pattern in _FILES:
        for path in ROOT.glob(pattern):
            shutil.copyfile(path, folder / path.name)
    for name in _FOLDERS:
        copy_of_folder(ROOT / name, folder / name)
    return folder


def copy_of_folder(source: Path, copy: Path) -> None:
    # Another process may be writing such a file, which then takes its own name.
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.pyc.*"))


def copy_of_checkout(folder: Path) -> Path:
    """Copies the files that git tracks, and new ones, into a folder, and returns the folder."""
    for name in checkout_files():
        source, copy = ROOT / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)
        if source.suffix == ".py":
            for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
                (copy.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copy2(compiled, copy.parent / "__pycache__")
    return folder
