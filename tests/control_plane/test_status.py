"""`status` reads a real API server, with Kueue in it, while serving and the fine-tune share its GPUs."""

from collections.abc import Iterator

import pytest

from operations.google.clients import Clients
from operations.state import Resource, State
from operations.status import look as status
from operations.status.cluster import from_kubeconfig
from operations.status.report import Line, Report
from rehearsal.control_plane import ControlPlane
from rehearsal.session import Rehearsal
from tests.control_plane.demonstration import ONE_SERVER, SERVING_ALONE, SETTINGS, TWO_SERVERS, Demonstration
from tests.operations.google_server import GoogleServer


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Demonstration]:
    with Rehearsal("l4-kueue", SETTINGS, plane=plane) as stack:
        yield Demonstration(stack=stack, api=plane.api)
        stack.remove()


def look(rehearsal: Rehearsal, plane: ControlPlane) -> Report:
    """What `status` shows of a stack on the control plane."""
    resources = (Resource(type=item.type, id=item.id, outputs=item.outputs) for item in rehearsal.cloud.items)
    state = State(resources=tuple(resources))
    with GoogleServer() as google:
        answer = {"name": "c", "status": "RUNNING"}
        google.plant("container.v1", "container.projects.locations.clusters.get", answer)
        clients = Clients("rehearsal-project", google.address)
        return status.look(rehearsal.stack, state, clients, from_kubeconfig(plane.kubeconfig))


def states(report: Report, kind: str) -> list[str]:
    return sorted(line.state for line in report.lines if line.kind == kind)


def reasons(report: Report, kind: str) -> list[str]:
    lines: list[Line] = [line for line in report.lines if line.kind == kind]
    return [line.why.text for line in lines if line.why]


def test_what_serving_takes_from_the_fine_tune_is_said(scene: Demonstration, plane: ControlPlane) -> None:
    def come_to(kind: str, wanted: list[str]) -> None:
        """The controllers write one object after the other."""
        scene.comes_to(lambda: states(look(scene.stack, plane), kind), wanted)

    # The Job that has copied the served model into the bucket stays, with its pod.
    copied = "complete"
    scene.ask_for(SERVING_ALONE)
    come_to("server", ["3 of 4 ready"])
    come_to("job", [copied, "suspended"])
    come_to("pod", ["pending", "running", "running", "running", "succeeded"])
    # The server has the higher priority: it is served first.
    come_to("queue", ["admitted"] * 3 + ["number 1 in the queue", "number 2 in the queue"])
    report = look(scene.stack, plane)
    assert report.unseen == ()
    assert reasons(report, "pod") == ["waits in the queue: Kueue has not admitted it"]
    assert all("waits for quota in the queue" in reason for reason in reasons(report, "queue"))
    assert any("6 nvidia.com/gpu" in line.detail for line in report.lines if line.kind == "nodes")

    scene.ask_for(ONE_SERVER)
    come_to("job", [copied, "running"])
    come_to("pod", ["running"] * 3 + ["succeeded"])
    assert reasons(look(scene.stack, plane), "queue") == []

    scene.ask_for(TWO_SERVERS)
    come_to("job", [copied, "suspended"])
    come_to("queue", ["admitted", "admitted", "number 1 in the queue"])
    (reason,) = reasons(look(scene.stack, plane), "queue")
    assert reason.startswith("preempted by a higher priority; waits for quota in the queue")
