"""What a person's own program finds in its environment: its nodes, its folder, places to write to."""

from collections.abc import Mapping
from typing import Any, Final

from stacks.program.job import PORT, first_pod

# JAX listens here. The other port is the launcher's.
_JAX_PORT: Final = PORT + 1
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_CACHE: Final = "/tmp/.cache"
# User 1000 is in no list of users of an image, and its root is read-only.
_WRITABLE: Final[Mapping[str, str]] = {
    "USER": "program",
    "LOGNAME": "program",
    "XDG_CACHE_HOME": _CACHE,
    "HF_HOME": f"{_CACHE}/huggingface",
    "TRITON_CACHE_DIR": f"{_CACHE}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{_CACHE}/torchinductor",
    "MPLCONFIGDIR": f"{_CACHE}/matplotlib",
    "WANDB_DIR": "/tmp",
}


def rendezvous(nodes: int, gpus: int, service: str) -> list[dict[str, Any]]:
    """Variables by which launchers find the nodes of a Job. RANK is not one: it belongs to each process.

    Args:
        gpus: GPUs of a node.
        service: Name of the Service of the pods.
    """
    address = first_pod(service)
    texts = {
        "NNODES": str(nodes),
        "NPROC_PER_NODE": str(gpus),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(PORT),
        "WORLD_SIZE": str(nodes * gpus),
        # torchrun reads these in place of its options.
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(gpus),
        "PET_NODE_RANK": "$(NODE_RANK)",
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(PORT),
        "JAX_COORDINATOR_ADDRESS": f"{address}:{_JAX_PORT}",
    }
    rank = {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
    return [rank, *variables(texts)]


def variables(texts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Environment variables as a container has them."""
    return [{"name": name, "value": text} for name, text in texts.items()]


def writable_places(*, as_root: bool) -> Mapping[str, str]:
    """Variables that name places to which the program may write. Root writes wherever the image says."""
    return {} if as_root else _WRITABLE
