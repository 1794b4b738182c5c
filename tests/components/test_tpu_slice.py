"""The table of TPU slices, against tables that were written down apart from it."""

import pytest

from cloud.quantity import quantity
from components.tpu_slice import TPU_SLICES, V6E_FLEX_START_ZONES, V6E_ZONES
from rehearsal.control_plane.nodes import shape_of_pool
from rehearsal.rules import tpu


@pytest.mark.parametrize("topology", TPU_SLICES)
def test_a_pod_that_trains_and_its_sidecar_fit_a_host_of_the_slice(topology: str) -> None:
    machine = TPU_SLICES[topology].machine
    config = {
        "machineType": machine.name,
        "diskSizeGb": 200,
        "advancedMachineFeatures": {"threadsPerCore": 1},
    }
    inputs = {"nodeConfig": config, "nodeLocations": ["us-east5-b"], "nodeCount": 1}
    room = shape_of_pool(inputs, "slice", "us-east5").node(0)["status"]["allocatable"]
    # The sidecar's 4 CPUs, 8 GiB and 20 GiB of disk, and 2 CPUs and 4 GiB for GKE's daemons.
    assert machine.pod_cpus + 4 + 2 <= (quantity(room["cpu"]) or 0)
    assert (machine.pod_memory_gib + 8 + 4) * 2**30 <= (quantity(room["memory"]) or 0)
    assert (quantity(room["ephemeral-storage"]) or 0) >= (50 + 20) * 2**30
    assert int(room["google.com/tpu"]) == machine.chips


@pytest.mark.parametrize("topology", TPU_SLICES)
def test_a_slice_has_as_many_hosts_as_the_platform_makes_it_of(topology: str) -> None:
    found = TPU_SLICES[topology]
    pool = {
        "cluster": "c",
        "nodeCount": found.hosts,
        "nodeLocations": ["us-east5-b"],
        "nodeConfig": {
            "machineType": found.machine.name,
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
        },
    }
    if found.hosts > 1:
        pool["placementPolicy"] = {"type": "COMPACT", "tpuTopology": topology}
    assert list(tpu.node_pool(pool)) == []
    assert tpu.node_labels(pool) == found.node_labels


def test_zones_are_listed_under_their_region() -> None:
    for table in (V6E_ZONES, V6E_FLEX_START_ZONES):
        for region, zones in table.items():
            assert [zone.rpartition("-")[0] for zone in zones] == [region] * len(zones)


def test_flex_start_is_nowhere_else_than_v6e() -> None:
    for region, zones in V6E_FLEX_START_ZONES.items():
        assert set(zones) <= set(V6E_ZONES[region])
