"""Fixtures of the MaxText tests: no network, files in pytest's directory only, one tiny training."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rehearsal.stand_ins.hub import Hub

HERE = Path(__file__).parent
WORKLOADS = HERE.parents[1] / "workloads"
PATHS = [str(WORKLOADS), str(WORKLOADS / "maxtext"), str(HERE)]
sys.path[:0] = PATHS


@pytest.fixture(scope="session")
def hub() -> "Iterator[Hub]":
    """A Hub of this machine, without a repository."""
    from rehearsal.stand_ins.hub import Hub

    with Hub() as hub:
        yield hub


@pytest.fixture(scope="session", autouse=True)
def environment(hub: "Hub", tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Environment variables, also of child processes, set before the import of modules that read them."""
    home = tmp_path_factory.mktemp("home")
    os.environ |= {
        "DECOUPLE_GCLOUD": "TRUE",
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(home / "hf"),
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": ":".join(PATHS),
        "RAY_AUTH_MODE": "disabled",
        # Ray gives its workers the lowest priority. On a loaded machine they would hardly run.
        "RAY_worker_niceness": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TMPDIR": str(home),
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    tempfile.tempdir = str(home)
    os.environ.pop("RAY_ADDRESS", None)
    yield
