"""The way of a job's pods to their nodes, which one property decides."""

import pytest

from components.capacity.capacity_chain import CapacityChain
from components.cluster.capacity import Capacity, CapacityType
from stacks.nodes.a4 import MACHINE
from stacks.nodes.job_nodes import JobNodes, Way

SPOT, FLEX, QUEUED = CapacityType.SPOT, CapacityType.FLEX_START, CapacityType.QUEUED_FLEX_START
ZONE = "us-central1-b"


def nodes(*types: CapacityType, pods: int, always_class: bool = False) -> JobNodes:
    chain = CapacityChain(
        capacities=tuple(Capacity(type=kind) for kind in types), zone=ZONE, always_class=always_class
    )
    return JobNodes(chain=chain, machine=MACHINE, labels=MACHINE.pod_labels, pods=pods)


@pytest.mark.parametrize(
    ("job", "way"),
    [
        (nodes(SPOT, pods=1), Way.LABELS),
        (nodes(SPOT, pods=2), Way.LABELS),
        (nodes(SPOT, FLEX, pods=1), Way.CLASS),
        (nodes(SPOT, pods=2, always_class=True), Way.CLASS),
        (nodes(SPOT, FLEX, pods=2), Way.QUEUE),
        (nodes(SPOT, FLEX, pods=2, always_class=True), Way.QUEUE),
        (nodes(QUEUED, pods=1), Way.REQUEST),
        (nodes(QUEUED, pods=2), Way.REQUEST),
    ],
)
def test_capacities_and_pods_decide_the_way(job: JobNodes, way: Way) -> None:
    assert job.way is way


def test_only_requested_nodes_make_the_cluster_a_standard_one() -> None:
    place = nodes(QUEUED, pods=2).standard("us-central1")
    assert place and (place.location, place.zones) == ("us-central1", [ZONE])
    others = [nodes(SPOT, pods=2), nodes(SPOT, FLEX, pods=1), nodes(SPOT, FLEX, pods=2)]
    assert [job.standard("us-central1") for job in others] == [None, None, None]
