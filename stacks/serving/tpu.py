"""vLLM on TPU chips: the machines of a server, its arguments and variables, and its compiled programs."""

from typing import Any, Final

import pulumi

from cloud.accelerators import TOPOLOGY_LABEL, V5E, V6E
from cloud.machines import MACHINES, Machine
from components.base.pod_patch import PodPatch
from components.image.image import Image
from components.storage.served_run import MOUNT_OPTIONS, SIDECAR_DRIVER
from stacks import pins
from stacks.settings.project import Project

# Machines that are a slice by themselves. vLLM calls v5p experimental.
SERVERS: Final = {
    name: machine
    for name, machine in MACHINES.items()
    if machine.model in (V6E, V5E) and machine.own_topology
}
# The place of the compiled programs in the containers.
_CACHE: Final = "/compiled"
# Tokens that a server with pictures computes together. A picture must fit, and vLLM's own number is too small
# for some models: a published log has 2496 tokens of a picture and a limit of 2048.
_TOKENS_WITH_PICTURES: Final = 4096
# GKE reads what the chips do from this port: assumption node-duty-cycle.
METRICS: Final = PodPatch(container={"ports": [{"name": "tpu-metrics", "containerPort": 8431}]})


def labels(machine: Machine) -> dict[str, str]:
    """The labels by which a server selects its machine on Autopilot."""
    return {**machine.pod_labels, TOPOLOGY_LABEL: machine.own_topology}


def server_image(project: Project) -> Image:
    """The image of the servers if no setting names one."""
    return Image.parse(project.mirrored(pins.VLLM_TPU_IMAGE))


def arguments(*, pictures: bool) -> list[str]:
    """Arguments of `vllm serve` that only TPU chips need. They compute a picture as a whole."""
    if not pictures:
        return []
    return ["--disable-chunked-mm-input", f"--max-num-batched-tokens={_TOKENS_WITH_PICTURES}"]


def variables(has_adapters: pulumi.Input[bool]) -> list[dict[str, Any]]:
    """Variables of a server. vLLM has adapters only on its models in PyTorch (assumption vllm-tpu-models)."""
    kind = pulumi.Output.from_input(has_adapters).apply(lambda adapters: "vllm" if adapters else "auto")
    return [
        {"name": "VLLM_XLA_CACHE_PATH", "value": _CACHE},
        {"name": "MODEL_IMPL_TYPE", "value": kind},
    ]


def cache_folder(run: str) -> str:
    """The folder beside a run for compiled programs. Each file's name says what it was compiled for."""
    runs, slash, _ = run.rpartition("/")
    return f"{runs}{slash}vllm-compiled"


def mounted_cache(bucket: str, folder: str) -> dict[str, list[dict[str, Any]]]:
    """Items for the holes `mounts` and `volumes` of a server that keeps compiled programs in a bucket."""
    attributes = {"bucketName": bucket, "mountOptions": f"{MOUNT_OPTIONS},only-dir={folder}"}
    csi = {"driver": SIDECAR_DRIVER, "volumeAttributes": attributes}
    return {
        "mounts": [{"name": "compiled", "mountPath": _CACHE}],
        "volumes": [{"name": "compiled", "csi": csi}],
    }
