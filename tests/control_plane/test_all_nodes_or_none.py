"""All nodes of a job or none: Kueue's requests for nodes, on machines that come all together."""

from collections.abc import Iterator

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Object, until
from rehearsal.nodes.node_requests import KIND, NodeRequest, requests_in
from rehearsal.session import Rehearsal
from rehearsal.stock import QUEUED_FLEX_START
from tests import plans
from tests.control_plane.machines import TIMEOUT, Scene, pods_of
from tests.control_plane.test_status import look

TWO_NODES = {
    "imageUri": plans.IMAGE,
    "nodes": "2",
    "capacity.type": QUEUED_FLEX_START,
    "capacity.zone": "us-central1-b",
}
WORKLOAD = ("kueue.x-k8s.io/v1beta2", "Workload")


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Iterator[Scene]:
    """The stack with two nodes. At first the platform has one machine.

    A pod needs some seconds to get a node that is there. So the keeper's ten minutes are ten seconds here.
    """
    with pytest.MonkeyPatch.context() as patch, Rehearsal("a4-accelerate", TWO_NODES, plane=plane) as stack:
        patch.setattr(plane.capacity_keeper, "minute", 1.0)
        scene = Scene(stack, plane)
        scene.offer({QUEUED_FLEX_START: 1})
        stack.up()
        yield scene
        stack.remove()
        assert stack.cloud.items == []
        assert stack.cluster and stack.cluster.left() == []


def has_a_request(scene: Scene) -> NodeRequest:
    """Waits until Kueue has one request, which has no nodes, and the job has no pods."""

    def held_back() -> list[NodeRequest]:
        waiting = [request for request in requests_in(scene.api) if request.waits]
        return [] if pods_of(scene.api) else waiting

    (request,) = until(
        lambda: f"a request without nodes, after:\n{scene.plane.capacity_keeper.log()}", held_back, TIMEOUT
    )
    return request


def revoke(scene: Scene) -> None:
    """Ends the time of the nodes that are there."""
    for request in requests_in(scene.api):
        if not request.waits:
            request.revoke()


def machines(scene: Scene) -> list[Object]:
    nodes = scene.api.list("v1", "Node")
    return [node for node in nodes if "cloud.google.com/gke-accelerator" in node["metadata"]["labels"]]


def is_served(tree: Object) -> bool:
    """Whether GKE serves the request. One waits only for the kind."""
    return not tree["spec"]["provisioningClassName"].endswith(".invalid")


def conditions_of_requests(scene: Scene) -> list[str]:
    statuses = [tree.get("status") or {} for tree in scene.api.list(*KIND)]
    return [entry["type"] for status in statuses for entry in status.get("conditions") or ()]


def test_no_pod_starts_and_no_node_costs_before_all_nodes_are_there(scene: Scene) -> None:
    has_a_request(scene)
    until(lambda: "the request to be accepted", lambda: "Accepted" in conditions_of_requests(scene), TIMEOUT)
    # One machine is free, and the job needs two.
    assert machines(scene) == []
    assert pods_of(scene.api) == []
    report = look(scene.stack, scene.plane)
    (line,) = (line for line in report.lines if line.kind == "queue")
    assert line.state == "waits for all its nodes"

    scene.offer({QUEUED_FLEX_START: 2})
    scene.comes_to(QUEUED_FLEX_START)
    assert len(machines(scene)) == 2
    assert scene.stack.preview().changed == 0
    assert scene.stack.refresh().changed == 0


def test_a_job_that_loses_a_node_requests_all_of_them_anew(scene: Scene) -> None:
    scene.offer({QUEUED_FLEX_START: 2})
    scene.comes_to(QUEUED_FLEX_START)
    before = {node["metadata"]["uid"] for node in machines(scene)}
    scene.offer({QUEUED_FLEX_START: 0})
    scene.lose(QUEUED_FLEX_START)
    has_a_request(scene)
    # The node that was left is given back.
    until(lambda: "the other node to go", lambda: not machines(scene), TIMEOUT)
    scene.offer({QUEUED_FLEX_START: 2})
    scene.comes_to(QUEUED_FLEX_START)
    assert not before & {node["metadata"]["uid"] for node in machines(scene)}


def test_a_job_whose_nodes_reach_their_time_waits_in_the_queue_again(scene: Scene) -> None:
    scene.offer({QUEUED_FLEX_START: 2})
    scene.comes_to(QUEUED_FLEX_START)
    pods = [pod["metadata"]["uid"] for pod in pods_of(scene.api)]
    until(
        lambda: "the end of the booking", lambda: "BookingExpired" in conditions_of_requests(scene), TIMEOUT
    )
    # That is longer than the keeper waits for a lost node. It leaves a job alone that has all its nodes.
    assert [pod["metadata"]["uid"] for pod in pods_of(scene.api)] == pods

    scene.offer({QUEUED_FLEX_START: 0})
    (before,) = scene.api.list(*WORKLOAD)
    revoke(scene)

    def is_another() -> bool:
        return any(tree["metadata"]["uid"] != before["metadata"]["uid"] for tree in scene.api.list(*WORKLOAD))

    # Kueue would never queue the same one again.
    until(lambda: "another workload of the job", is_another, TIMEOUT)
    has_a_request(scene)
    until(lambda: "the nodes to go", lambda: not machines(scene), TIMEOUT)
    scene.offer({QUEUED_FLEX_START: 2})
    scene.comes_to(QUEUED_FLEX_START)


def test_nodes_that_were_kept_in_vain_are_requested_again(scene: Scene) -> None:
    scene.offer({})
    revoke(scene)
    has_a_request(scene)
    until(lambda: "the request to be accepted", lambda: "Accepted" in conditions_of_requests(scene), TIMEOUT)
    (tree,) = (tree for tree in scene.api.list(*KIND) if is_served(tree))
    now = tree["metadata"]["creationTimestamp"]
    both = [
        {"type": name, "status": "True", "reason": name, "message": name, "lastTransitionTime": now}
        for name in ("Accepted", "Provisioned", "BookingExpired")
    ]
    scene.api.patch(tree, {"status": {"conditions": both}}, "status")

    # Kueue waits a minute before it requests them again. This test does not.
    def will_be_requested() -> bool:
        (workload,) = scene.api.list(*WORKLOAD)
        (check,) = workload["status"]["admissionChecks"]
        retries = check["state"] == "Retry" or check.get("retryCount") == 1
        return retries and workload["spec"].get("active", True)

    until(lambda: "the job to wait for another request", will_be_requested, TIMEOUT)
    assert pods_of(scene.api) == []
