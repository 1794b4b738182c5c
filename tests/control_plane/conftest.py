"""One control plane for all tests of the folder: it takes a quarter of a minute to start."""

import signal
from collections.abc import Iterator

import pytest

from engine import go_build
from rehearsal.control_plane import ControlPlane, binaries
from rehearsal.control_plane.api import Api, until
from rehearsal.live_cluster import install_ray

KUEUE = "kueue-system"


@pytest.fixture(scope="session", autouse=True)
def ended_in_good_order() -> Iterator[None]:
    """Tests that are told to end take their control plane with them, as they do after Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A control plane without nodes and without Kueue."""
    missing = go_build.missing(binaries.MODULES)
    if missing:
        pytest.skip(missing)
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    with ControlPlane(terminal.write_line if terminal else print) as plane:
        install_ray(plane)
        yield plane


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Api:
    """Its API server."""
    return plane.api


@pytest.fixture(scope="module")
def kueue(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with Kueue, as its chart configures it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUEUE}}
    plane.api.apply(namespace)
    plane.kueue.start({}, KUEUE)
    yield plane
    plane.kueue.remove()
    plane.api.delete(namespace)
    until(lambda: f"{KUEUE} to go", lambda: plane.api.get(namespace) is None, 60)
