"""Shared by the workload tests: no network, no traces outside pytest's directory, one tiny model."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WORKLOADS = HERE.parents[1] / "workloads"
sys.path[:0] = [str(WORKLOADS), str(HERE)]


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For this process and those it starts; set before anything that reads it is imported."""
    home = tmp_path_factory.mktemp("home")
    os.environ |= {
        "CI": "1",
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": f"{WORKLOADS}:{HERE}",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(home),
        "TOKENIZERS_PARALLELISM": "false",
    }
    tempfile.tempdir = str(home)
    os.environ.pop("HF_TOKEN", None)
    os.environ.pop("RAY_ADDRESS", None)
    yield


@pytest.fixture(autouse=True)
def default_termination() -> Iterator[None]:
    """A run takes over SIGTERM; give it back."""
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with `model` and `data`."""
    from tiny import make_data, make_model

    path = tmp_path_factory.mktemp("tiny")
    make_data(path / "data")
    make_model(path / "model")
    return path
