"""A kind that GKE installs long after the cluster is ready: `up` waits for it, and so does Kueue."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from rehearsal.control_plane import ControlPlane, kinds
from rehearsal.control_plane.api import Api, establish, until
from rehearsal.session import Rehearsal
from rehearsal.stock import QUEUED_FLEX_START
from tests import plans
from tests.control_plane.machines import TIMEOUT, Scene

REQUEST = "ProvisioningRequest"
TWO_NODES = {
    "imageUri": plans.IMAGE,
    "nodes": "2",
    "capacity.type": QUEUED_FLEX_START,
    "capacity.zone": "us-central1-b",
}
CLASS = {"imageUri": plans.IMAGE, "capacity.type": '["reservation", "spot"]'}


@contextmanager
def missing(api: Api, kind: str) -> Generator[Callable[[str], None]]:
    """A cluster without a kind. GKE installs it when the engine prints that something waits for it."""
    definition = kinds.definitions()[kind]
    api.delete(definition)
    until(lambda: f"{kind} to go", lambda: api.get(definition) is None, TIMEOUT)

    def read(line: str) -> None:
        if re.search(rf"waits: .* kind {kind} yet.* 1 of at most", line) and not api.get(definition):
            api.create(definition)
            establish(api, [definition])

    try:
        yield read
    finally:
        if not api.get(definition):
            api.create(definition)
            establish(api, [definition])


@pytest.fixture(autouse=True)
def unhurried(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tries a rehearsal waits for nothing, but here the API server needs some seconds."""
    monkeypatch.setattr("components.base.retries._PAUSE_VARIABLE", "PAUSE_OF_THIS_TEST_S")
    monkeypatch.setenv("PAUSE_OF_THIS_TEST_S", "2")


@pytest.mark.parametrize(
    ("kind", "settings", "capacity"),
    [(REQUEST, TWO_NODES, QUEUED_FLEX_START), ("ComputeClass", CLASS, "reservation")],
)
def test_a_job_starts_although_gke_installs_the_kind_late(
    plane: ControlPlane, kind: str, settings: dict[str, str], capacity: str
) -> None:
    with (
        missing(plane.api, kind) as read,
        Rehearsal("a4-accelerate", settings, plane=plane, progress=read) as stack,
    ):
        scene = Scene(stack, plane, size=2 if kind == REQUEST else 1)
        scene.offer({capacity: 2})
        stack.up()
        scene.comes_to(capacity)
        assert stack.preview().changed == 0
        stack.remove()
