"""How the GPUs of several nodes reach each other: TCP, or RDMA through the network cards of the GPUs."""

import os
import resource
import time
from pathlib import Path

import torch
import torch.distributed as dist

from shared.errors import InputError

# Where the kernel lists the network cards that can do RDMA.
DEVICES = Path("/sys/class/infiniband")
# A manifest sets it to `rdma` where the pods have such cards.
TRANSPORT = "RUN_TRANSPORT"
# NCCL locks the memory that a card reads and writes: some GiB for each GPU. A container has 8 MiB by default.
LEAST_LOCKED = 2**30
# Bytes that each process sums up with the others, and how often.
SIZE = 256 * 2**20
ROUNDS = 5
# GB/s below which something is wrong with RDMA. Eight cards of an A4 node have 400 GB/s together
# (https://docs.cloud.google.com/compute/docs/gpus/gpu-network-bandwidth), and TCP has 50 at most.
FLOOR = 100.0


def expects_rdma() -> bool:
    """Whether the pod has network cards for RDMA, by its manifest."""
    return os.environ.get(TRANSPORT) == "rdma"


def check_transport(devices: Path | None = None) -> None:
    """Refuse to train over TCP where RDMA is expected: NCCL would do so without a word.

    Args:
        devices: Folder with an entry for each network card, by default the kernel's.

    Raises:
        InputError: If there is no card, or if no memory can be locked for it.
    """
    if not expects_rdma():
        return
    if not cards(devices):
        raise InputError(
            "transport is rdma, and the pod has no network card for it: the claim of the pod or the network "
            "profile of its nodes is missing; see docs/capacity.md, or set transport to tcp"
        )
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if locked != resource.RLIM_INFINITY and locked < LEAST_LOCKED:
        raise InputError(
            f"transport is rdma, and the pod may lock {locked // 1024} KiB of memory: set transport to "
            "rdmaWithScript, or to tcp if it is that already, because then its node has not run the script "
            "(docs/capacity.md)"
        )


def cards(devices: Path | None = None) -> list[str]:
    """Names of the network cards that can do RDMA."""
    devices = devices or DEVICES
    return sorted(entry.name for entry in devices.iterdir()) if devices.is_dir() else []


def describe(device: torch.device) -> str | None:
    """A line about the way between the nodes, with its measured bandwidth. None if there is one node.

    All processes must call it.
    """
    processes = dist.get_world_size() if dist.is_initialized() else 1
    on_each = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    if processes == on_each:
        return None
    speed = bandwidth(device, SIZE if device.type == "cuda" else SIZE // 64)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "any" if locked == resource.RLIM_INFINITY else f"{locked // 1024} KiB of"
    way = f"RDMA by {len(cards())} cards" if expects_rdma() else "TCP"
    line = f"{processes // on_each} nodes: {way}, {limit} memory may be locked, all-reduce {speed:.1f} GB/s"
    if expects_rdma() and speed < FLOOR:
        line += f"\nwarning: less than {FLOOR:.0f} GB/s: the network cards are not used as they should be"
    return line


def bandwidth(device: torch.device, size: int = SIZE) -> float:
    """The bus bandwidth of an all-reduce over all processes, in GB/s.

    It is the amount that each process sends and receives: 2 (n - 1) / n of the data, as nccl-tests count.
    """
    data = torch.zeros(size // 4, dtype=torch.float32, device=device)
    count = dist.get_world_size()
    dist.all_reduce(data)  # connects
    _wait(device)
    start = time.perf_counter()
    for _ in range(ROUNDS):
        dist.all_reduce(data)
    _wait(device)
    seconds = (time.perf_counter() - start) / ROUNDS
    return 2 * (count - 1) / count * size / seconds / 1e9


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
