"""`status` reads a real API server, with Kueue in it, while serving and the fine-tune share its GPUs."""

from collections.abc import Iterator

import pytest

from operations.clients import Clients
from operations.state import Resource, State
from operations.status.look import Look
from operations.status.report import Line, Report
from rehearsal import Rehearsal
from rehearsal.control_plane import ControlPlane
from tests import plans
from tests.control_plane.demonstration import Demonstration
from tests.control_plane.test_l4_kueue import ONE_SERVER, SERVING_ALONE, TWO_SERVERS, ask_for, shown
from tests.operations.google_server import GoogleServer


@pytest.fixture
def stack(plane: ControlPlane) -> Iterator[Rehearsal]:
    with Rehearsal("l4-kueue", {"imageUri": plans.IMAGE}, plane=plane) as rehearsal:
        yield rehearsal


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        answer = {"name": "c", "status": "RUNNING"}
        server.plant("container.v1", "container.projects.locations.clusters.get", answer)
        yield server


def look(rehearsal: Rehearsal, plane: ControlPlane, google: GoogleServer) -> Report:
    resources = (
        Resource(type=item.type, name=item.name, id=item.id, outputs=item.outputs)
        for item in rehearsal.cloud.items
    )
    clients = Clients("rehearsal-project", google.address)
    return Look("l4-kueue", State(resources=tuple(resources)), clients, plane.kubeconfig).report()


def states(report: Report, kind: str) -> list[str]:
    return sorted(line.state for line in report.lines if line.kind == kind)


def reasons(report: Report, kind: str) -> list[str]:
    lines: list[Line] = [line for line in report.lines if line.kind == kind]
    return [line.why.text for line in lines if line.why]


def test_what_serving_takes_from_the_fine_tune_is_said(
    stack: Rehearsal, plane: ControlPlane, google: GoogleServer
) -> None:
    def come_to(scene: Demonstration, kind: str, wanted: list[str]) -> None:
        """The controllers write one object after the other."""
        scene.comes_to(lambda: states(look(stack, plane, google), kind), wanted)

    ask_for(stack, SERVING_ALONE)
    scene = shown(stack, plane)
    come_to(scene, "server", ["3 of 4 ready"])
    come_to(scene, "job", ["suspended"])
    come_to(scene, "pod", ["pending", "running", "running", "running"])
    # The server has the higher priority: it is served first.
    come_to(scene, "queue", ["admitted"] * 3 + ["number 1 in the queue", "number 2 in the queue"])
    report = look(stack, plane, google)
    assert report.unseen == ()
    assert reasons(report, "pod") == ["waits in the queue: Kueue has not admitted it"]
    assert all("waits for quota in the queue" in reason for reason in reasons(report, "queue"))
    assert any("6 nvidia.com/gpu" in line.detail for line in report.lines if line.kind == "nodes")

    ask_for(stack, ONE_SERVER)
    come_to(scene, "job", ["running"])
    come_to(scene, "pod", ["running"] * 3)
    assert reasons(look(stack, plane, google), "queue") == []

    ask_for(stack, TWO_SERVERS)
    come_to(scene, "job", ["suspended"])
    come_to(scene, "queue", ["admitted", "admitted", "number 1 in the queue"])
    (reason,) = reasons(look(stack, plane, google), "queue")
    assert reason.startswith("pre-empted by a higher priority; waits for quota in the queue")
    stack.destroy()
