"""The simulated nodes against what Google publishes about the real ones."""

from typing import Any

import pytest

from cloud.quantity import quantity
from rehearsal.nodes.shapes import shape_for_pod, shape_of_pool
from tests.rehearsal.right import SLICE_POOL

REGION = "us-central1"


def pod(selector: dict[str, str], **requests: str) -> dict[str, Any]:
    return {"spec": {"nodeSelector": selector, "containers": [{"resources": {"requests": requests}}]}}


def l4_pool(**changes: Any) -> dict[str, Any]:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    config = {"machineType": "g2-standard-24", "diskSizeGb": 200, "labels": {"team": "ml"}, "taints": [taint]}
    return {"nodeConfig": config, "nodeLocations": ["us-central1-a"], "nodeCount": 3, **changes}


def test_a_node_is_labelled_and_tainted_as_its_pool_says() -> None:
    shape = shape_of_pool(l4_pool(), "l4", REGION)
    node = shape.node(1)
    labels = node["metadata"]["labels"]
    assert (shape.least, shape.most) == (3, 3)
    assert labels["cloud.google.com/gke-accelerator"] == "nvidia-l4"
    assert labels["cloud.google.com/gke-nodepool"] == "l4"
    assert labels["topology.kubernetes.io/zone"] == "us-central1-a"
    assert labels["topology.kubernetes.io/region"] == "us-central1"
    assert labels["team"] == "ml"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_a_pool_has_its_nodes_in_every_zone() -> None:
    assert shape_of_pool(l4_pool(nodeLocations=None, nodeCount=1), "l4", REGION).least == 3
    assert shape_of_pool(l4_pool(nodeLocations=None, nodeCount=1), "l4", "us-central1-b").least == 1
    assert shape_of_pool(l4_pool(nodeLocations=None, nodeCount=1), "l4", "us-south1-ai1b").least == 1


def test_an_autoscaled_pool_has_its_minimum_and_room_to_its_maximum() -> None:
    scaling = {"totalMinNodeCount": 1, "totalMaxNodeCount": 3}
    shape = shape_of_pool(l4_pool(nodeCount=None, autoscaling=scaling), "l4", REGION)
    assert (shape.least, shape.most) == (1, 3)


def test_a_tpu_pool_is_a_whole_slice() -> None:
    shape = shape_of_pool(SLICE_POOL, "tpu", "us-east5")
    node = shape.node(0)
    assert shape.least == 4
    assert node["metadata"]["labels"]["cloud.google.com/gke-tpu-topology"] == "4x4"
    assert node["metadata"]["labels"]["cloud.google.com/gke-tpu-accelerator"] == "tpu-v6e-slice"
    assert node["status"]["allocatable"]["google.com/tpu"] == "4"
    assert node["status"]["capacity"]["cpu"] == "90"  # one thread a core leaves half
    assert node["spec"]["taints"][0]["key"] == "google.com/tpu"


@pytest.mark.parametrize(
    ("machine_type", "topology"),
    [("ct6e-standard-1t", "1x1"), ("ct6e-standard-4t", "2x2"), ("ct6e-standard-8t", "2x4")],
)
def test_a_machine_with_chips_on_its_own_is_a_slice_too(machine_type: str, topology: str) -> None:
    inputs = {"nodeConfig": {"machineType": machine_type}, "nodeLocations": ["us-east5-b"], "nodeCount": 1}
    labels = shape_of_pool(inputs, "tpu", "us-east5").node(0)["metadata"]["labels"]
    assert labels["cloud.google.com/gke-tpu-topology"] == topology


def test_autopilot_makes_the_node_that_a_pod_selects() -> None:
    wanted = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/gke-spot": "true"}
    shape = shape_for_pod(pod(wanted, cpu="160", memory="1024Gi", **{"nvidia.com/gpu": "8"}), REGION)
    assert shape
    assert shape.machine.name == "a4-highgpu-8g"
    assert shape.node(0)["metadata"]["labels"]["cloud.google.com/gke-spot"] == "true"


@pytest.mark.parametrize(
    ("selector", "requests"),
    [
        ({"cloud.google.com/gke-accelerator": "nvidia-b200"}, {"nvidia.com/gpu": "16"}),
        ({"cloud.google.com/gke-accelerator": "nvidia-b200"}, {"cpu": "230"}),
        ({"cloud.google.com/gke-accelerator": "nvidia-unheard-of"}, {"cpu": "1"}),
    ],
)
def test_autopilot_has_no_node_for_what_no_machine_holds(
    selector: dict[str, str], requests: dict[str, str]
) -> None:
    assert shape_for_pod(pod(selector, **requests), REGION) is None


@pytest.mark.parametrize(
    ("text", "value"), [("500m", 0.5), ("30Gi", 30 * 2**30), ("2", 2.0), (4, 4.0), ("1G", 1e9), ("1e3", 1e3)]
)
def test_quantities_are_numbers(text: str | int, value: float) -> None:
    assert quantity(text) == value
