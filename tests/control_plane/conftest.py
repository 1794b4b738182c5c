"""One control plane for all tests of a process: it takes a quarter of a minute to start."""

import signal
from collections.abc import Iterator

import pytest

from engine import go_build
from engine.go_build import Log
from rehearsal.control_plane import ControlPlane, programs
from rehearsal.control_plane.api import Api


@pytest.fixture(scope="session", autouse=True)
def ended_in_good_order() -> Iterator[None]:
    """After SIGTERM the tests end their control plane, as they do after Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def log(pytestconfig: pytest.Config) -> Log:
    """Tells the terminal what takes long, once the programs are there or can be built."""
    if missing := go_build.missing(programs.MODULES):
        pytest.skip(missing)
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    return terminal.write_line if terminal else print


@pytest.fixture(scope="session")
def plane(log: Log) -> Iterator[ControlPlane]:
    """A control plane without nodes and without Kueue."""
    with ControlPlane(log) as plane:
        yield plane


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Api:
    """Its API server."""
    return plane.api
