"""Groups of held-out rows that go through the model together when no pack holds them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from torch.utils.data import Dataset

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True)
class Groups(Dataset[list[dict[str, Any]]]):
    """Rows in groups, one after the other: `groups` has the numbers of the rows of each.

    A group is an item, so the processes of a run share whole groups, and no row counts twice.
    """

    rows: "datasets.Dataset"
    groups: list[list[int]]

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> list[dict[str, Any]]:
        return [self.rows[number] for number in self.groups[index]]


@dataclass(frozen=True)
class GroupBatch:
    """Collates the rows of groups as `collate` collates rows."""

    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def __call__(self, groups: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return self.collate([*chain.from_iterable(groups)])


def by_length(lengths: list[int], tokens: int) -> list[list[int]]:
    """The numbers of rows of about one length, in groups of at most so many tokens with their padding.

    A longer row is a group of its own.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: (lengths[number], number)):
        if groups and (len(groups[-1]) + 1) * lengths[number] <= tokens:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def in_order(rows: int, size: int) -> list[list[int]]:
    """The numbers of so many rows, in groups of `size`."""
    return [[*range(first, min(first + size, rows))] for first in range(0, rows, size)]
