"""What pods can have of a machine with L4 GPUs."""

import pytest

from components.g2_machine import G2_MACHINES, G2_ZONES


@pytest.mark.parametrize(
    ("name", "cpus", "memory"),
    [
        # GKE keeps 0.06 + 0.01 + 0.01 + 0.05 of 24 CPUs, and 1 + 0.8 + 0.8 + 4.8 of 96 GiB; its daemons
        # take 1 and 2 more, and pods are evicted over the last 0.1 GiB.
        ("g2-standard-24", 22, 86),
        # 0.06 + 0.01 + 0.01 of 4, and 1 + 0.8 + 0.8 of 16.
        ("g2-standard-4", 2, 11),
        # 0.06 + 0.01 + 0.01 + 0.23 of 96, and 1 + 0.8 + 0.8 + 6.72 + 5.12 of 384.
        ("g2-standard-96", 94, 367),
    ],
)
def test_pods_get_what_gke_leaves_of_a_machine(name: str, cpus: int, memory: int) -> None:
    machine = G2_MACHINES[name]
    assert (machine.pod_cpus, machine.pod_memory_gib) == (cpus, memory)


def test_pods_get_half_of_the_boot_disk() -> None:
    # 186.3 GiB: 71.2 are kept, and pods are evicted over the last 18.6.
    assert {machine.pod_storage_gib for machine in G2_MACHINES.values()} == {96}


def test_every_zone_is_one_of_its_region() -> None:
    for region, zones in G2_ZONES.items():
        assert zones
        assert {zone.rpartition("-")[0] for zone in zones} == {region}
