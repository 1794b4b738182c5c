"""Every machine of the catalogue: the rules of its nodes, its quotas, its zones and its prices."""

import re

import pytest

from cloud import nodes
from cloud.accelerators import L4, TPUS, V6E, zones_from
from cloud.machines import GPU_MACHINES, MACHINES, Machine
from cloud.prices import hourly_price, parts_of_machine
from cloud.rules import ZONE
from operations.cost.prices import known

PERSISTENT, HYPERDISK = "pd-balanced", "hyperdisk-balanced"
# Boot disks by the beginning of a machine's name, as GKE's published autoscaler has them.
DISKS = {
    **{key: {PERSISTENT} for key in ("e2", "n2", "g2", "a2", "ct5lp", "ct5p")},
    **{key: {PERSISTENT, HYPERDISK} for key in ("a3-highgpu", "a3-megagpu")},
    **{key: {HYPERDISK} for key in ("a3-ultragpu", "a4", "g4", "ct6e")},
}
# The machines with accelerators.
ACCELERATED = {name: machine for name, machine in MACHINES.items() if machine.model}
# Quotas of an accelerator on demand, of spot and flex-start, and of the CPUs beside it, by its name.
QUOTAS = {
    "nvidia-l4": ("nvidia_l4_gpus", "preemptible_nvidia_l4_gpus", "cpus"),
    "nvidia-tesla-a100": ("nvidia_a100_gpus", "preemptible_nvidia_a100_gpus", "a2_cpus"),
    "nvidia-a100-80gb": ("nvidia_a100_80gb_gpus", "preemptible_nvidia_a100_80gb_gpus", "a2_cpus"),
    "nvidia-h100-80gb": ("NVIDIA_H100", "preemptible_nvidia_h100_gpus", ""),
    "nvidia-h100-mega-80gb": ("NVIDIA_H100_MEGA", "preemptible_nvidia_h100_mega_gpus", ""),
    "nvidia-h200-141gb": ("NVIDIA_H200", "preemptible_nvidia_h200_gpus", ""),
    "nvidia-b200": ("NVIDIA_B200", "preemptible_nvidia_b200_gpus", ""),
    "nvidia-rtx-pro-6000": ("NVIDIA_RTX_PRO_6000", "preemptible_nvidia_rtx_pro_6000_gpus", ""),
    "tpu-v6e-slice": ("CT6E", "preemptible_tpu_v6e", ""),
    "tpu-v5-lite-podslice": ("tpu_lite_podslice_v5", "preemptible_tpu_lite_podslice_v5", ""),
    "tpu-v5p-slice": ("tpu_v5p", "preemptible_tpu_v5p", ""),
}
# Dollars an hour on demand, in us-central1, that others computed: GPUs, CPUs, memory and local SSDs.
HOURLY = {
    "a2-highgpu-1g": 3.673385,
    "a2-highgpu-8g": 29.38708,
    "a2-ultragpu-1g": 5.0688,
    "a2-ultragpu-8g": 40.5504,
    "a3-highgpu-1g": 10.98 + 0.082,
    "a3-highgpu-8g": 87.83 + 0.658,
    "a3-megagpu-8g": 92.74 + 0.658,
    "a3-ultragpu-8g": 83.49 + 1.315,
    "a4-highgpu-8g": 128.88,
    "g4-standard-48": 4.49993,
    "g4-standard-384": 36.0,
    # SkyPilot's published catalog. v6e and v5p are in us-east5, v5e in us-west4.
    "ct6e-standard-1t": 2.70,
    "ct5lp-hightpu-8t": 9.60,
    "ct5p-hightpu-4t": 16.80,
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("path", ["diskType", "bootDisk"])
def test_a_node_starts_only_from_a_disk_that_its_machine_takes(name: str, path: str) -> None:
    (allowed,) = (disks for start, disks in DISKS.items() if name.startswith(f"{start}-"))
    for disk in (PERSISTENT, HYPERDISK):
        node = {"machineType": name, path: disk if path == "diskType" else {"diskType": disk}}
        refusals = [problem for _, problem in nodes.boot_disk({"nodeConfig": node})]
        expected = [] if disk in allowed else [f"{name} takes no {disk}: give {MACHINES[name].disk_type}"]
        assert refusals == expected
    assert MACHINES[name].disk_type in allowed


@pytest.mark.parametrize("machine", GPU_MACHINES.values(), ids=list(GPU_MACHINES))
def test_a_pool_names_the_gpus_that_are_in_its_machine(machine: Machine) -> None:
    def problems(**gpus: object) -> list[str]:
        config = {"machineType": machine.name, "guestAccelerators": [gpus]}
        return [problem for _, problem in nodes.machine_type({"nodeConfig": config})]

    right = {"type": machine.accelerator, "count": machine.count}
    assert problems(**right) == []
    for wrong in ({**right, "count": machine.count + 1}, {**right, "type": "nvidia-t4"}):
        assert problems(**wrong) == [f"{machine.name} has {machine.count} {machine.accelerator}"]


@pytest.mark.parametrize("machine", ACCELERATED.values(), ids=list(ACCELERATED))
def test_quotas_are_those_that_users_of_the_accelerator_name(machine: Machine) -> None:
    model = machine.model
    assert model
    own, preemptible, cpus = QUOTAS[model.name]
    family = model.quota_family and model.quota_family[1]
    assert (family or model.quota, model.preemptible_quota, machine.cpu_quota) == (own, preemptible, cpus)
    assert ("_family" in model.quota) is bool(family)


@pytest.mark.parametrize("machine", ACCELERATED.values(), ids=list(ACCELERATED))
@pytest.mark.parametrize("capacity", ["onDemand", "spot", "flexStart"])
def test_every_part_that_is_billed_has_an_sku(machine: Machine, capacity: str) -> None:
    keys = [part.key for part in parts_of_machine(machine, capacity, autopilot=True)]
    assert [key for key in keys if not known().get(key)] == []


@pytest.mark.parametrize("machine", ACCELERATED.values(), ids=list(ACCELERATED))
def test_a_pod_chooses_the_accelerator_and_a_driver_only_for_gpus(machine: Machine) -> None:
    tpu = machine.model in TPUS.values()
    assert machine.is_tpu is tpu
    (label,) = machine.node_labels
    assert ("tpu" in label) is tpu and ("driver" in "".join(machine.pod_labels)) is not tpu
    assert machine.resource == ("google.com/tpu" if tpu else "nvidia.com/gpu")
    assert bool(machine.topologies) is tpu


@pytest.mark.parametrize(("name", "dollars"), HOURLY.items())
def test_list_prices_of_the_parts_add_up_to_the_machine(name: str, dollars: float) -> None:
    price = hourly_price(parts_of_machine(MACHINES[name], "onDemand"))
    assert price and price.is_whole
    assert price.dollars == pytest.approx(dollars, rel=0.001)


@pytest.mark.parametrize(
    ("key", "description"),
    [
        ("nvidia-h100-80gb.onDemand", "Nvidia H100 80GB GPU running in Americas"),
        ("nvidia-h100-mega-80gb.onDemand", "Nvidia H100 80GB Plus GPU running in Americas"),
        (
            "nvidia-h100-mega-80gb.spot",
            "Nvidia H100 80GB Mega GPU attached to Spot Preemptible VMs running in X",
        ),
        ("nvidia-h200-141gb.onDemand", "H200 141GB GPU running in Netherlands"),
        ("nvidia-rtx-pro-6000.spot", "RTX 6000 96GB attached to Spot Preemptible VMs running in Belgium"),
        ("nvidia-tesla-a100.onDemand", "Nvidia Tesla A100 GPU running in Americas"),
        ("nvidia-a100-80gb.onDemand", "Nvidia Tesla A100 80GB GPU running in Americas"),
        (
            "nvidia-a100-80gb.flexStart",
            "Nvidia Tesla A100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
        ),
        ("a3.cpu.onDemand", "A3 Instance Core running in Americas"),
        ("a3ultra.cpu.flexStart", "DWS Defined Duration A3Ultra Core"),
        ("a3plus.memory.onDemand", "A3Plus Instance Ram running in Americas"),
        ("g4.cpu.onDemand", "G4 Instance Core running in Iowa"),
        ("tpu-v5-lite-podslice.onDemand", "TpuV5e running in Las Vegas"),
        ("tpu-v5-lite-podslice.flexStart", "DWS Defined Duration V5e running in Las Vegas"),
        ("tpu-v5p-slice.onDemand", "TpuV5p running in Columbus"),
        ("tpu-v6e-slice.spot", "TpuV6e attached to Spot Preemptible VMs running in Americas"),
    ],
)
def test_an_sku_that_people_quote_is_the_price_of_one_part_alone(key: str, description: str) -> None:
    every = {name: sku for name, sku in known().items() if sku}
    assert [name for name, (_, text) in every.items() if re.fullmatch(text, description)] == [key]


def test_every_zone_of_a_list_is_a_zone_of_its_region() -> None:
    models = {machine.model.name: machine.model for machine in MACHINES.values() if machine.model}
    assert L4.name in models and V6E.name in models
    for model in models.values():
        for region, zones in model.zones.items():
            assert zones and len({*zones}) == len(zones)
            assert all(ZONE.fullmatch(zone) and zone.rpartition("-")[0] == region for zone in zones)


def test_a_zone_for_ai_is_one_zone_beside_those_of_letters() -> None:
    zones = zones_from("us-south1-b us-south1-ai1b europe-west4-ab")
    assert zones["us-south1"] == ("us-south1-b", "us-south1-ai1b")
    assert zones["europe-west4"] == ("europe-west4-a", "europe-west4-b")
