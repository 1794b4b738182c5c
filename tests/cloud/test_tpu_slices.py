"""What GKE and its Ray operator reject of TPU slices, the rehearsal rejects too."""

import copy
from typing import Any

import pytest

from cloud.accelerators import TOPOLOGY_LABEL, TPU_LABEL
from cloud.inputs import UNKNOWN
from cloud.machines import TPU_RESOURCE
from cloud.nodes import node_labels
from tests.rehearsal import right
from tests.rehearsal.test_rules import changed, reasons

WRONG_POOLS: list[tuple[str, Any, str]] = [
    ("nodeCount", 3, "a 4x4 slice of ct6e-standard-4t has 4 nodes in one zone"),
    ("nodeLocations", ["us-east5-a", "us-east5-b"], "has 4 nodes in one zone"),
    (
        "placementPolicy.tpuTopology",
        "4x5",
        "no 4x5 slice is made of ct6e-standard-4t; these are: 2x2, 2x4, 4x4",
    ),
    ("placementPolicy.tpuTopology", "2x2", "a slice of one ct6e-standard-4t has none: remove it"),
    ("placementPolicy.type", None, "a TPU topology needs COMPACT placement"),
    (
        "nodeConfig.machineType",
        "ct6e-standard-8t",
        "no 4x4 slice is made of ct6e-standard-8t; these are: 2x4",
    ),
    ("nodeConfig.machineType", "g2-standard-24", "g2-standard-24 has no TPU chips"),
    ("nodeConfig.diskType", "pd-balanced", "takes no pd-balanced: give hyperdisk-balanced"),
    ("nodeConfig.reservationAffinity", None, "must be stated for ct6e-standard-4t"),
    ("nodeConfig.guestAccelerators", [{"type": "nvidia-l4", "count": 1}], "takes no GPUs"),
]


def scaled(least: int, most: int) -> dict[str, Any]:
    limits = {"minNodeCount": least, "maxNodeCount": most}
    return {
        **{key: value for key, value in right.SLICE_POOL.items() if key != "nodeCount"},
        "autoscaling": limits,
    }


def workers(topology: str, hosts: int | None, chips: str) -> dict[str, Any]:
    """A RayCluster with a worker group on a slice."""
    tree = copy.deepcopy(right.RIGHT[right.RAY_CLUSTER])
    (group,) = tree["spec"]["workerGroupSpecs"]
    if hosts is not None:
        group["numOfHosts"] = hosts
    group["template"]["spec"]["nodeSelector"] = {TPU_LABEL: "tpu-v6e-slice", TOPOLOGY_LABEL: topology}
    resources = group["template"]["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        del amounts["nvidia.com/gpu"]
        amounts[TPU_RESOURCE] = chips
    return tree


@pytest.mark.parametrize("pool", [right.SLICE_POOL, scaled(0, 4), scaled(4, 4)])
def test_a_whole_slice_passes(pool: dict[str, Any]) -> None:
    assert reasons(right.NODE_POOL, pool) == ""


@pytest.mark.parametrize(("path", "value", "message"), WRONG_POOLS)
def test_a_pool_that_is_no_slice_is_rejected(path: str, value: Any, message: str) -> None:
    assert message in reasons(right.NODE_POOL, changed(right.SLICE_POOL, path, value))


@pytest.mark.parametrize(("least", "most"), [(0, 3), (1, 4), (0, 8)])
def test_half_a_slice_never_comes_or_goes(least: int, most: int) -> None:
    assert f"a 4x4 slice has 0 or 4 nodes, never {least} to {most}" in reasons(
        right.NODE_POOL, scaled(least, most)
    )


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"totalMinNodeCount": 0, "totalMaxNodeCount": 4}, "has limits by zone: give maxNodeCount"),
        ({"minNodeCount": 0, "maxNodeCount": 4, "locationPolicy": "ANY"}, "is in one zone: remove it"),
    ],
)
def test_a_slice_is_not_scaled_over_all_zones(limits: dict[str, Any], message: str) -> None:
    assert message in reasons(right.NODE_POOL, {**scaled(0, 4), "autoscaling": limits})


def test_a_scaled_slice_is_in_one_zone() -> None:
    pool = {**scaled(0, 4), "nodeLocations": ["us-east5-a", "us-east5-b"]}
    assert "a 4x4 slice is in one zone" in reasons(right.NODE_POOL, pool)


def test_machines_of_one_host_slices_come_in_any_number() -> None:
    pool = changed(changed(right.SLICE_POOL, "placementPolicy", None), "nodeCount", 3)
    assert reasons(right.NODE_POOL, pool) == ""


@pytest.mark.parametrize(
    ("topology", "hosts", "chips"), [("4x4", 4, "4"), ("2x4", 1, "8"), ("2x2", None, "4"), ("1x1", 1, "1")]
)
def test_as_many_workers_as_the_slice_has_hosts_pass(topology: str, hosts: int | None, chips: str) -> None:
    assert reasons(right.RAY_CLUSTER, workers(topology, hosts, chips)) == ""


@pytest.mark.parametrize(
    ("topology", "hosts", "chips"), [("4x4", None, "4"), ("4x4", 4, "8"), ("2x4", 2, "8"), ("8x8", 4, "4")]
)
def test_another_number_of_workers_is_rejected_as_by_the_webhook(
    topology: str, hosts: int | None, chips: str
) -> None:
    assert "not equal to specified topology" in reasons(right.RAY_CLUSTER, workers(topology, hosts, chips))


def test_workers_with_chips_select_a_topology() -> None:
    tree = workers("4x4", 4, "4")
    tree["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"].pop(TOPOLOGY_LABEL)
    assert f"pods with google.com/tpu must select {TOPOLOGY_LABEL}" in reasons(right.RAY_CLUSTER, tree)


@pytest.mark.parametrize("path", ["nodeConfig.machineType", "placementPolicy.tpuTopology", "nodeCount"])
def test_a_slice_that_is_not_known_yet_is_not_rejected(path: str) -> None:
    assert reasons(right.NODE_POOL, changed(right.SLICE_POOL, path, UNKNOWN)) == ""


def test_a_topology_that_is_not_known_yet_is_not_rejected() -> None:
    assert reasons(right.RAY_CLUSTER, workers(UNKNOWN, 4, "4")) == ""


def test_nodes_are_labelled_with_their_slice() -> None:
    assert node_labels(right.SLICE_POOL)[TOPOLOGY_LABEL] == "4x4"
    alone = changed(right.SLICE_POOL, "placementPolicy", None)
    assert node_labels(alone)[TOPOLOGY_LABEL] == "2x2"
    assert node_labels(right.RIGHT[right.NODE_POOL]) == {}
