"""Two stacks that only the tests have: `neutral` is a cluster with L4, and `neutral-run` is on Cloud Run.

Both train and serve. Tests of commands use them, so that another scenario may change or go.
"""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from engine import project
from stacks import scenarios

NEUTRAL: Final = "neutral"
NEUTRAL_RUN: Final = "neutral-run"
_FOLDER: Final = Path(__file__).parent / "neutral"
_stack_files = project.stack_files


@contextmanager
def neutral_stacks() -> Generator[None]:
    """Adds both stacks and their scenarios to those of the checkout, until the end of the context."""
    with (
        patch.object(scenarios, "__path__", [*scenarios.__path__, str(_FOLDER)]),
        patch.object(project, "stack_files", _with_neutral),
    ):
        yield


def put_into(checkout: Path) -> None:
    """Adds both stacks and their scenarios to a copy of the checkout, for its own processes."""
    for path in _FOLDER.glob("Pulumi.*.yaml"):
        shutil.copy(path, checkout)
    for path in _FOLDER.glob("*.py"):
        shutil.copy(path, checkout / "stacks/scenarios")


def _with_neutral(checkout: Path) -> dict[str, Path]:
    files = _stack_files(checkout)
    return {**files, **_stack_files(_FOLDER)} if checkout == project.ROOT else files
