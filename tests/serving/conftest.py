"""The real vLLM in the containers of the stacks that serve. Without its environment the tests are skipped."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import go_build, lookup
from engine.project import ROOT
from rehearsal.control_plane import programs
from rehearsal.pods import image, network
from rehearsal.running_pods.surroundings import REAL_SERVER, Surroundings
from tests.serving.shapes import SHAPES
from tests.serving.visits import Visit, visited


@pytest.fixture(scope="session")
def _network(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Moves the tests into a network of their own."""
    if reason := network.missing() or image.missing(REAL_SERVER) or go_build.missing([programs.PROMETHEUS]):
        pytest.skip(reason)
    go_build.build([programs.PROMETHEUS], print)
    lookup.find(print)
    network.enter(tmp_path_factory.mktemp("network") / "hosts")


@pytest.fixture(scope="session")
def tuned(_network: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tuned.py makes: tiny models, finished runs, and their answers by transformers and peft."""
    folder = tmp_path_factory.mktemp("tuned")
    environment = os.environ | {
        "HF_HOME": str(folder / "home"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(tmp_path_factory.getbasetemp()),
    }
    command = [ROOT / ".venv-training/bin/python", Path(__file__).with_name("tuned.py"), folder]
    subprocess.run(command, check=True, env=environment)
    return folder


@pytest.fixture(scope="session")
def around(tuned: Path) -> Iterator[Surroundings]:
    """Buckets, a metadata server, and a Hub with the tiny models."""
    with Surroundings(tuned / "hub", real_server=True) as around:
        yield around


@pytest.fixture(scope="session", params=list(SHAPES))
def visit(request: pytest.FixtureRequest, around: Surroundings, tuned: Path) -> Visit:
    """A visit to the server of a stack, from its start to its end. Starting one takes a minute or more."""
    return visited(SHAPES[request.param], around, tuned)
