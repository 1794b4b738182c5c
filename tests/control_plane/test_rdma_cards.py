"""Claims for network cards, judged by Kubernetes' own scheduler and the real Kueue."""

import json
from collections.abc import Iterator

import pytest

from cloud.machines import B200, GPU_LABEL
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, Object, condition, until
from rehearsal.session import Rehearsal
from rehearsal.stock import RESERVATION, SPOT
from tests import plans
from tests.control_plane.machines import TIMEOUT, Scene, pods_of

DEVICES = "resource.k8s.io/v1"
SETTINGS = {
    "imageUri": plans.IMAGE,
    "transport": "rdma",
    "capacity.type": json.dumps([RESERVATION, SPOT]),
    "capacity.minutes": "[20, 20]",
    "capacity.zone": "us-central1-b",
}


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Iterator[Scene]:
    """The stack a4-ray. The reservation has one machine, and spot has two."""
    with Rehearsal("a4-ray", SETTINGS, plane=plane) as stack:
        scene = Scene(stack, plane)
        scene.offer({RESERVATION: 1, SPOT: 2})
        stack.up()
        yield scene
        stack.remove()
        assert stack.cluster and stack.cluster.left() == []


def cards_by_node(api: Api) -> dict[str, set[str]]:
    """The cards that claims have, by their node."""
    cards: dict[str, set[str]] = {}
    for claim in api.list(DEVICES, "ResourceClaim"):
        results = claim["status"]["allocation"]["devices"]["results"] if claim.get("status") else []
        for result in results:
            cards.setdefault(result["pool"], set()).add(result["device"])
    return cards


def test_every_worker_has_the_eight_cards_with_rdma_of_its_node_and_moves_with_them(scene: Scene) -> None:
    scene.comes_to(SPOT)
    nodes = {pod["spec"]["nodeName"] for pod in pods_of(scene.api)}
    eight = {f"gpu{number}rdma0" for number in range(8)}
    assert cards_by_node(scene.api) == dict.fromkeys(nodes, eight)
    (workload,) = scene.api.list("kueue.x-k8s.io/v1beta2", "Workload")
    (workers,) = (
        group for group in workload["status"]["admission"]["podSetAssignments"] if group.get("flavors")
    )
    assert workers["resourceUsage"] == {"network-cards": "16", "nvidia.com/gpu": "16"}
    assert scene.stack.preview().changed == 0


@pytest.mark.parametrize("lacks", ["the network profile", "the claims"])
def test_without_a_part_of_it_no_pod_has_a_card(scene: Scene, lacks: str) -> None:
    """A pod that claims cards waits on nodes without them, and a pod without a claim has none."""
    scene.offer({SPOT: 4})
    scene.comes_to(SPOT)
    (worker, *_) = pods_of(scene.api)
    spec = json.loads(json.dumps(worker["spec"]))
    for name in ("nodeName", "volumes", "initContainers", "serviceAccountName", "serviceAccount"):
        spec.pop(name, None)
    container = {"name": "c", "image": "none", "resources": spec["containers"][0]["resources"]}
    spec["containers"] = [container]
    if lacks == "the claims":
        spec.pop("resourceClaims")
        container["resources"].pop("claims")
    else:
        # GKE makes a node for these labels without a class, and so without networks for its cards.
        spec["nodeSelector"] = {GPU_LABEL: B200.name, "cloud.google.com/gke-spot": "true"}
    metadata = {"name": f"stranger-{len(lacks)}", "namespace": worker["metadata"]["namespace"]}
    before = sum(map(len, cards_by_node(scene.api).values()))
    pod = scene.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    try:
        if lacks == "the claims":
            until(lambda: "a node", lambda: (scene.api.get(pod) or {})["spec"].get("nodeName"), TIMEOUT)
        else:
            until(lambda: "no node", lambda: "allocate all claims" in _why(scene.api, pod), TIMEOUT)
        assert sum(map(len, cards_by_node(scene.api).values())) == before
    finally:
        scene.api.delete(pod, ended=True)


def _why(api: Api, pod: Object) -> str:
    return str(condition(api.get(pod), "PodScheduled").get("message") or "")
