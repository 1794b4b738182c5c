"""Sizes and places that a node pool and its cluster can have."""

from typing import cast

import pytest

from cloud.machines import MACHINES, TPU_SLICES
from components.capacity import Capacity, CapacityType
from components.cluster import Cluster
from components.node_pool import NodePoolArgs

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


def test_a_fixed_number_that_does_not_spread_evenly_is_rejected() -> None:
    assert pool(4, 4, "a", "b").fixed_size
    with pytest.raises(ValueError, match="3 nodes do not spread evenly over 2 zones"):
        pool(3, 3, "a", "b")


@pytest.mark.parametrize(("kind", "minimum"), [(CapacityType.SPOT, 4), (CapacityType.FLEX_START, 0)])
def test_a_pool_is_a_slice_as_a_whole(kind: CapacityType, minimum: int) -> None:
    args = NodePoolArgs.of_slice(
        TPU_SLICES["4x4"],
        cluster=NO_CLUSTER,
        zone="a",
        disk_gb=200,
        capacity=Capacity(type=kind),
        max_hours=None,
    )
    assert (args.machine.name, args.minimum, args.maximum) == ("ct6e-standard-4t", minimum, 4)
