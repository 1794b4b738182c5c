"""Sizes and places that a node pool and its cluster can have."""

from typing import Any, cast

import pytest

from cloud.machines import MACHINES, TPU_SLICES
from components.cluster import Cluster
from components.node_pool import NodePoolArgs
from components.standard_cluster import StandardClusterArgs

NO_CLUSTER = cast(Cluster, None)


def pool(minimum: int, maximum: int, *zones: str) -> NodePoolArgs:
    return NodePoolArgs(
        cluster=NO_CLUSTER,
        machine=MACHINES["g2-standard-24"],
        zones=zones,
        minimum=minimum,
        maximum=maximum,
        disk_gb=200,
    )


def test_as_many_nodes_at_least_as_at_most_are_a_fixed_number() -> None:
    assert pool(3, 3, "a").fixed_size
    assert not pool(0, 3, "a", "b").fixed_size


@pytest.mark.parametrize(("minimum", "maximum"), [(4, 3), (-1, 3), (0, 0)])
def test_impossible_limits_are_refused(minimum: int, maximum: int) -> None:
    with pytest.raises(ValueError, match=f"{minimum} to {maximum} nodes"):
        pool(minimum, maximum, "a")


def test_a_fixed_number_that_does_not_spread_evenly_is_refused() -> None:
    assert pool(4, 4, "a", "b").fixed_size
    with pytest.raises(ValueError, match="3 nodes do not spread evenly over 2 zones"):
        pool(3, 3, "a", "b")


def slice_pool(topology: str, machine_type: str, minimum: int, maximum: int, *zones: str) -> NodePoolArgs:
    return NodePoolArgs(
        cluster=NO_CLUSTER,
        machine=MACHINES[machine_type],
        zones=zones,
        minimum=minimum,
        maximum=maximum,
        disk_gb=200,
        tpu_slice=TPU_SLICES[topology],
    )


def test_a_pool_is_a_slice_as_a_whole() -> None:
    assert slice_pool("4x4", "ct6e-standard-4t", 4, 4, "a").fixed_size
    assert not slice_pool("4x4", "ct6e-standard-4t", 0, 4, "a").fixed_size


@pytest.mark.parametrize(
    ("machine_type", "minimum", "maximum", "zones", "message"),
    [
        ("ct6e-standard-8t", 4, 4, "a", "4 ct6e-standard-8t are no 4x4 slice; that is 4 ct6e-standard-4t"),
        ("ct6e-standard-4t", 2, 2, "a", "2 ct6e-standard-4t are no 4x4 slice"),
        ("ct6e-standard-4t", 1, 4, "a", "give a minimum of 0 or 4, and one zone"),
        ("ct6e-standard-4t", 4, 4, "ab", "give a minimum of 0 or 4, and one zone"),
    ],
)
def test_what_is_no_slice_is_refused(
    machine_type: str, minimum: int, maximum: int, zones: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        slice_pool("4x4", machine_type, minimum, maximum, *zones)


@pytest.mark.parametrize("zones", [["europe-west4-a"], ["us-central1-a", "us-east4-a"], []])
def test_a_clusters_zones_are_those_of_its_region(zones: list[str]) -> None:
    arguments: dict[str, Any] = {"project": "p", "location": "us-central1", "network": "n", "subnet": "s"}
    with pytest.raises(ValueError, match="give zones of us-central1"):
        StandardClusterArgs(**arguments, labels={}, images=[], zones=zones)


@pytest.mark.parametrize(
    ("zones", "fits"), [(["a-b1-c"], True), (["a-b1-c", "a-b1-d"], False), (["a-b1-d"], False)]
)
def test_a_cluster_of_one_zone_has_its_nodes_there(zones: list[str], fits: bool) -> None:
    arguments: dict[str, Any] = {"project": "p", "location": "a-b1-c", "network": "n", "subnet": "s"}
    if fits:
        assert StandardClusterArgs(**arguments, labels={}, images=[], zones=zones).zones == zones
    else:
        with pytest.raises(ValueError, match="give zones of a-b1-c"):
            StandardClusterArgs(**arguments, labels={}, images=[], zones=zones)
