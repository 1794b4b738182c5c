"""The models of GPUs and TPUs in the catalogue: their zones and their quotas.

A list of zones says what a project was shown, not what it can get. Lists of GPUs other than L4 are from
SkyPilot's published catalog v8, and every region in them from a list of machine types of 2026-08-17
(assumption gpu-zones). A model without a list is looked for in the project: `preflight` asks Google.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Labels that GKE puts on nodes. https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus
GPU_LABEL: Final = "cloud.google.com/gke-accelerator"
TPU_LABEL: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY_LABEL: Final = "cloud.google.com/gke-tpu-topology"
DRIVER_LABEL: Final = "cloud.google.com/gke-gpu-driver-version"
# The newest driver that GKE offers. B200 and RTX PRO 6000 need R570 or newer, images with CUDA 13 need R580.
# The newest one runs every older model too.
GPU_DRIVER: Final = "latest"

Zones = Mapping[str, tuple[str, ...]]
# Zones for AI have longer names: us-south1-ai1b.
_AI_ZONE: Final = re.compile(r"(.+)-ai\d+[a-z]")


def zones_from(text: str) -> Zones:
    """Zones by region. `us-central1-abc` is three zones, and `us-south1-ai1b` is a zone for AI."""
    zones: dict[str, tuple[str, ...]] = {}
    for word in text.split():
        ai_zone = _AI_ZONE.fullmatch(word)
        region, _, letters = word.rpartition("-")
        names = (word,) if ai_zone else tuple(f"{region}-{letter}" for letter in letters)
        zones[region] = (*zones.get(region, ()), *names)
    return zones


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A model of GPU, or a generation of TPU.

    Args:
        name: As Compute Engine and GKE call it.
        memory_gb: GB of memory that each has.
        zones: Zones that offer it to everybody, by region. Empty if we have no list.
        flex_start_zones: Zones in which flex-start has it, if they are fewer.
        quota: Metric of Compute Engine's quota for it.
        quota_family: If several accelerators share a metric: its dimension, and the value for this one. https://docs.cloud.google.com/compute/resource-usage#gpu_quota
        preemptible_quota: Metric of the quota that spot and flex-start take.
        cpu_quota: Metric of the quota that CPUs of its machines count for, empty for none (assumption
            accelerator-cpu-quota).
        whole_price: Whether a machine with it has one price that covers CPUs, memory and local SSDs.
    """

    name: str
    memory_gb: int
    zones: Zones = field(default_factory=dict)
    flex_start_zones: Zones = field(default_factory=dict)
    quota: str
    quota_family: tuple[str, str] | None = None
    preemptible_quota: str
    cpu_quota: str = ""
    whole_price: bool = False


@dataclass(frozen=True, kw_only=True)
class Tpu(Accelerator):
    """A generation of TPU chips.

    Args:
        version: Name in settings, and in MaxText's names of slices: `v5p`.
        ray_version: Name of the generation in Ray and in GKE's variable TPU_ACCELERATOR_TYPE.
        cores: TensorCores of a chip. Names of slices count them: `v5p-8` has four chips.
    """

    version: str
    ray_version: str
    cores: int = 1

    @property
    def ray_name(self) -> str:
        """The accelerator as Ray's API names it: `TPU-V6E`."""
        return f"TPU-{self.ray_version.upper()}"


def _of_family(
    name: str, memory_gb: int, family: str, zones: str = "", *, whole_price: bool = False
) -> Accelerator:
    """A GPU whose quota on demand is one of `gpus_per_gpu_family`.

    Google has no metric such as NVIDIA_H100_GPUS. Names of families: assumption gpu-family-quota.
    """
    return Accelerator(
        name=name,
        memory_gb=memory_gb,
        zones=zones_from(zones),
        quota="gpus_per_gpu_family",
        quota_family=("gpu_family", family),
        preemptible_quota=f"preemptible_{family.lower()}_gpus",
        whole_price=whole_price,
    )


L4: Final = Accelerator(
    name="nvidia-l4",
    memory_gb=24,
    # https://docs.cloud.google.com/compute/docs/gpus/gpu-regions-zones (assumption l4-zones). Add a missing
    # zone here.
    zones=zones_from(
        "asia-east1-abc asia-northeast1-abc asia-northeast3-ab asia-south1-abc asia-southeast1-abc "
        "europe-west1-bc europe-west2-ab europe-west3-ab europe-west4-abc europe-west6-bc me-central2-ac "
        "northamerica-northeast1-bc northamerica-northeast2-ab us-central1-abc us-east1-bcd us-east4-ac "
        "us-west1-abc us-west4-ac"
    ),
    quota="nvidia_l4_gpus",
    preemptible_quota="preemptible_nvidia_l4_gpus",
    cpu_quota="cpus",
)
A100: Final = Accelerator(
    name="nvidia-tesla-a100",
    memory_gb=40,
    zones=zones_from(
        "asia-northeast1-ac asia-northeast3-ab asia-southeast1-abc europe-west4-ab me-west1-ac "
        "us-central1-abcf us-east1-b us-west1-b us-west3-b us-west4-b"
    ),
    quota="nvidia_a100_gpus",
    preemptible_quota="preemptible_nvidia_a100_gpus",
    cpu_quota="a2_cpus",
)
A100_80GB: Final = Accelerator(
    name="nvidia-a100-80gb",
    memory_gb=80,
    zones=zones_from("asia-southeast1-c europe-west4-a us-central1-ac us-east4-c us-east5-ab"),
    quota="nvidia_a100_80gb_gpus",
    preemptible_quota="preemptible_nvidia_a100_80gb_gpus",
    cpu_quota="a2_cpus",
)
H100: Final = _of_family(
    "nvidia-h100-80gb",
    80,
    "NVIDIA_H100",
    "asia-east1-c asia-northeast1-b asia-south1-c asia-south2-b asia-southeast1-bc australia-southeast1-c "
    "europe-north1-c europe-west1-bc europe-west3-c europe-west4-bc europe-west8-c europe-west9-c "
    "us-central1-abc us-east4-abc us-east5-a us-west1-ab us-west4-a",
)
H100_MEGA: Final = _of_family(
    "nvidia-h100-mega-80gb",
    80,
    "NVIDIA_H100_MEGA",
    "asia-east1-c asia-northeast1-b asia-southeast1-bc australia-southeast1-c europe-north1-c "
    "europe-west1-bc europe-west3-c europe-west4-bc us-central1-abc us-east4-abc us-east5-a us-west1-ab "
    "us-west4-a",
)
H200: Final = _of_family(
    "nvidia-h200-141gb",
    141,
    "NVIDIA_H200",
    "asia-south1-b asia-south2-c europe-west1-b europe-west4-a us-central1-b us-east4-b us-east5-a "
    "us-south1-b us-west1-c",
)
B200: Final = _of_family(
    "nvidia-b200",
    180,
    "NVIDIA_B200",
    "asia-northeast1-b asia-southeast1-b europe-north1-b europe-west4-b us-central1-b us-east1-b us-east4-b "
    "us-south1-b us-west2-c us-west3-bc",
    whole_price=True,
)
RTX_PRO_6000: Final = _of_family("nvidia-rtx-pro-6000", 96, "NVIDIA_RTX_PRO_6000")
V6E: Final = Tpu(
    name="tpu-v6e-slice",
    version="v6e",
    ray_version="v6e",
    memory_gb=32,
    # https://docs.cloud.google.com/tpu/docs/regions-zones. Zones outside the United States are written from
    # memory of that page (assumption v6e-zones). us-east5-b is before a: assumption v6e-on-demand.
    zones=zones_from(
        "asia-northeast1-b europe-west4-a southamerica-west1-a us-central1-b us-east1-d us-east5-ba"
    ),
    # https://docs.cloud.google.com/tpu/docs/request-using-flex-start. That us-east5-b has it too:
    # assumption v6e-flex-start-zones.
    flex_start_zones=zones_from("asia-northeast1-b us-east5-ab"),
    quota="tpus_per_tpu_family",
    quota_family=("tpu_family", "CT6E"),
    preemptible_quota="preemptible_tpu_v6e",
    whole_price=True,
)
# v5e and v5p have quotas of their own, and no share of the quota of families (assumption tpu-v5-quota).
V5E: Final = Tpu(
    name="tpu-v5-lite-podslice",
    version="v5e",
    ray_version="v5litepod",
    memory_gb=16,
    # https://docs.cloud.google.com/tpu/docs/regions-zones (assumption tpu-v5-zones).
    zones=zones_from("europe-west4-b us-central1-a us-south1-a us-west1-c us-west4-a"),
    flex_start_zones=zones_from("us-west4-a"),
    quota="tpu_lite_podslice_v5",
    preemptible_quota="preemptible_tpu_lite_podslice_v5",
    whole_price=True,
)
V5P: Final = Tpu(
    name="tpu-v5p-slice",
    version="v5p",
    ray_version="v5p",
    cores=2,
    memory_gb=95,
    zones=zones_from("europe-west4-b us-central1-a us-east5-a"),
    flex_start_zones=zones_from("us-east5-a"),
    quota="tpu_v5p",
    preemptible_quota="preemptible_tpu_v5p",
    whole_price=True,
)
# TPU7x (Ironwood) is left out. Its slices take a workload policy in place of a topology, and a chip is two
# devices (docs/machines.md).
TPUS: Final = {model.version: model for model in (V6E, V5E, V5P)}
