"""The catalogue of machines against what Google publishes, and what others report of real nodes."""

import pytest

from cloud.accelerators import TPUS, Tpu
from cloud.machines import MACHINES, Machine, allocatable_disk_gib
from cloud.slices import TPU_SLICES, Slice, slice_of

_KI = 2**20
SLICES = [shape for shapes in TPU_SLICES.values() for shape in shapes.values()]

# CPUs, GiB of memory, and what is allocatable of them in millicores and Ki.
PUBLISHED = [
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, its example of a node
    (4, 16, 3920, 13498416),
    # n2-highmem-4, -16 and -64 on GKE 1.25: https://github.com/2i2c-org/infrastructure/issues/2121
    (4, 32, 3920, 29085928),
    (16, 128, 15890, 122210676),
    (64, 512, 63770, 510603916),
]


@pytest.mark.parametrize(("cpus", "memory_gib", "millicores", "ki"), PUBLISHED)
def test_allocatable_is_what_is_published(cpus: int, memory_gib: int, millicores: int, ki: int) -> None:
    machine = Machine(name="n2-any", cpus=cpus, memory_gib=memory_gib)
    assert machine.allocatable_cpus * 1000 == pytest.approx(millicores)
    # Firmware and kernel take 2 to 4 % of the memory before GKE sees it. The catalogue leaves that out.
    assert 1 <= machine.allocatable_gib / (ki / _KI) < 1.04


def test_a_shared_core_machine_leaves_less_than_one_cpu() -> None:
    # GKE reserves 1060 millicores of shared-core E2 machines, says the page of the first example.
    assert MACHINES["e2-medium"].allocatable_cpus == pytest.approx(0.94)


def test_allocatable_disk_is_what_is_published() -> None:
    # The same page: 47060071478 bytes of a boot disk of 100 GB.
    assert 1 <= allocatable_disk_gib(100) / (47060071478 / 2**30) < 1.04
    # 186.3 GiB: 71.2 are kept, and pods are evicted over the last 18.6.
    assert int(allocatable_disk_gib(200)) == 96


@pytest.mark.parametrize(
    ("name", "cpus", "memory"),
    [
        # GKE keeps 0.06 + 0.01 + 0.01 + 0.05 of 24 CPUs, and 1 + 0.8 + 0.8 + 4.8 of 96 GiB. Its daemons take
        # 1 CPU and 2 GiB more. It evicts pods over the last 0.1 GiB.
        ("g2-standard-24", 22, 86),
        # 0.06 + 0.01 + 0.01 of 4, and 1 + 0.8 + 0.8 of 16.
        ("g2-standard-4", 2, 11),
        # 0.06 + 0.01 + 0.01 + 0.23 of 96, and 1 + 0.8 + 0.8 + 6.72 + 5.12 of 384.
        ("g2-standard-96", 94, 367),
        ("a4-highgpu-8g", 222, 3879),
        ("a3-ultragpu-8g", 222, 2884),
        ("a3-highgpu-8g", 206, 1825),
        ("a3-highgpu-1g", 24, 220),
        ("g4-standard-48", 46, 167),
    ],
)
def test_pods_get_what_gke_and_its_daemons_leave_of_a_machine(name: str, cpus: int, memory: int) -> None:
    machine = MACHINES[name]
    assert (machine.pod_cpus, machine.pod_memory_gib) == (cpus, memory)


@pytest.mark.parametrize(
    ("name", "accelerator", "count", "cpus", "memory_gib"),
    [
        # https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines#g2-vms
        ("g2-standard-4", "nvidia-l4", 1, 4, 16),
        ("g2-standard-24", "nvidia-l4", 2, 24, 96),
        ("g2-standard-32", "nvidia-l4", 1, 32, 128),
        ("g2-standard-48", "nvidia-l4", 4, 48, 192),
        ("g2-standard-96", "nvidia-l4", 8, 96, 384),
        # https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines#a4-vms. Nobody compared it
        # with that page, nor what GKE leaves of it.
        ("a4-highgpu-8g", "nvidia-b200", 8, 224, 3968),
        # Sizes of the published autoscaler of 2026-08-21.
        ("a3-ultragpu-8g", "nvidia-h200-141gb", 8, 224, 2952),
        ("a3-megagpu-8g", "nvidia-h100-mega-80gb", 8, 208, 1872),
        ("a3-highgpu-1g", "nvidia-h100-80gb", 1, 26, 234),
        ("a3-highgpu-2g", "nvidia-h100-80gb", 2, 52, 468),
        ("a3-highgpu-4g", "nvidia-h100-80gb", 4, 104, 936),
        ("a3-highgpu-8g", "nvidia-h100-80gb", 8, 208, 1872),
        ("a2-highgpu-1g", "nvidia-tesla-a100", 1, 12, 85),
        ("a2-highgpu-2g", "nvidia-tesla-a100", 2, 24, 170),
        ("a2-highgpu-4g", "nvidia-tesla-a100", 4, 48, 340),
        ("a2-highgpu-8g", "nvidia-tesla-a100", 8, 96, 680),
        ("a2-ultragpu-1g", "nvidia-a100-80gb", 1, 12, 170),
        ("a2-ultragpu-8g", "nvidia-a100-80gb", 8, 96, 1360),
        ("g4-standard-48", "nvidia-rtx-pro-6000", 1, 48, 180),
        ("g4-standard-96", "nvidia-rtx-pro-6000", 2, 96, 360),
        ("g4-standard-192", "nvidia-rtx-pro-6000", 4, 192, 720),
        ("g4-standard-384", "nvidia-rtx-pro-6000", 8, 384, 1440),
        # https://docs.cloud.google.com/tpu/docs/v6e. GKE labels real nodes of the first two with
        # gke-cpu-scaling-level 44 and 180, gke-memory-gb-scaling-level 180 and 737: thousands of MiB.
        ("ct6e-standard-1t", "tpu-v6e-slice", 1, 44, 176),
        ("ct6e-standard-4t", "tpu-v6e-slice", 4, 180, 720),
        ("ct6e-standard-8t", "tpu-v6e-slice", 8, 180, 1440),
        # https://docs.cloud.google.com/tpu/docs/v5e
        ("ct5lp-hightpu-1t", "tpu-v5-lite-podslice", 1, 24, 48),
        ("ct5lp-hightpu-4t", "tpu-v5-lite-podslice", 4, 112, 192),
        ("ct5lp-hightpu-8t", "tpu-v5-lite-podslice", 8, 224, 384),
        # https://docs.cloud.google.com/tpu/docs/v5p
        ("ct5p-hightpu-4t", "tpu-v5p-slice", 4, 208, 448),
    ],
)
def test_a_machine_has_what_is_built_into_it(
    name: str, accelerator: str, count: int, cpus: int, memory_gib: int
) -> None:
    machine = MACHINES[name]
    assert (machine.accelerator, machine.count) == (accelerator, count)
    assert (machine.cpus, machine.memory_gib) == (cpus, memory_gib)


@pytest.mark.parametrize("model", TPUS.values(), ids=list(TPUS))
def test_flex_start_is_nowhere_else_than_the_chips(model: Tpu) -> None:
    assert model.flex_start_zones
    for region, zones in model.flex_start_zones.items():
        assert set(zones) <= set(model.zones[region])


@pytest.mark.parametrize("shape", SLICES, ids=[shape.accelerator_type for shape in SLICES])
def test_a_pod_that_trains_and_its_sidecar_fit_a_host_of_the_slice(shape: Slice) -> None:
    machine = shape.machine
    one_thread_a_core = Machine(name="half", cpus=machine.cpus // 2, memory_gib=machine.memory_gib)
    # The sidecar's 4 CPUs, 8 GiB and 20 GiB of disk, and 2 CPUs and 4 GiB for GKE's daemons.
    assert machine.pod_cpus + 4 + 2 <= one_thread_a_core.allocatable_cpus
    assert machine.pod_memory_gib + 8 + 4 <= machine.allocatable_gib
    assert allocatable_disk_gib(200) >= 50 + 20


def test_slices_are_made_of_the_hosts_that_google_lists() -> None:
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
    slices = TPU_SLICES["v6e"].items()
    assert {topology: (shape.machine.name, shape.hosts) for topology, shape in slices} == {
        "1x1": ("ct6e-standard-1t", 1),
        "2x2": ("ct6e-standard-4t", 1),
        "2x4": ("ct6e-standard-8t", 1),
        "4x4": ("ct6e-standard-4t", 4),
        "4x8": ("ct6e-standard-4t", 8),
        "8x8": ("ct6e-standard-4t", 16),
        "8x16": ("ct6e-standard-4t", 32),
        "16x16": ("ct6e-standard-4t", 64),
    }


def test_v5e_has_the_shapes_of_v6e_and_v5p_has_three_directions() -> None:
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
    assert TPU_SLICES["v5e"].keys() == TPU_SLICES["v6e"].keys()
    assert [shape.hosts for shape in TPU_SLICES["v5e"].values()] == [
        shape.hosts for shape in TPU_SLICES["v6e"].values()
    ]
    v5p = TPU_SLICES["v5p"].items()
    # https://docs.cloud.google.com/tpu/docs/v5p has the cores, chips and hosts of each topology.
    assert {topology: (shape.accelerator_type, shape.chips, shape.hosts) for topology, shape in v5p} == {
        "2x2x1": ("v5p-8", 4, 1),
        "2x2x2": ("v5p-16", 8, 2),
        "2x2x4": ("v5p-32", 16, 4),
        "2x4x4": ("v5p-64", 32, 8),
        "4x4x4": ("v5p-128", 64, 16),
        "4x4x8": ("v5p-256", 128, 32),
        "4x8x8": ("v5p-512", 256, 64),
    }


@pytest.mark.parametrize("shape", SLICES, ids=[shape.accelerator_type for shape in SLICES])
def test_a_slice_is_the_one_that_its_labels_choose(shape: Slice) -> None:
    assert slice_of(shape.node_labels) is shape
    assert (shape.topology == shape.machine.own_topology) is (shape.hosts == 1)
