"""Communication between the processes of a run. With a single process each function returns its own value."""

from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


def agreed(value: T) -> T:
    """Rank 0's value, on every rank."""
    if not dist.is_initialized():
        return value
    answer = [value]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]


def gathered(value: T) -> list[T] | None:
    """Every rank's value, by rank, on rank 0; None on the others."""
    if not dist.is_initialized():
        return [value]
    values: list[T] | None = [value] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(value, values)
    return values


def highest(value: int, device: torch.device) -> int:
    """The highest value of any rank, on every rank."""
    if not dist.is_initialized():
        return value
    level = torch.tensor(value, device=device)
    dist.all_reduce(level, op=dist.ReduceOp.MAX)
    return int(level.item())
