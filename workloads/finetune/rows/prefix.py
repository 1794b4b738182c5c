"""The tokens that all rows begin with go through the model once per batch, not once per row.

The instructions of a prompt are the same in every row. In a causal model later tokens do not change the
states of earlier ones. So rows that share one copy of the prefix have the same losses and gradients as rows
with their own copies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from finetune.rows.tokens import NOT_TRAINED

if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from pyarrow import Table

BATCH = 1000


def split_off_prefix(
    rows: "Dataset", test_rows: "Dataset | None"
) -> "tuple[list[int], Dataset, Dataset | None]":
    """The tokens that all rows begin with, and both data sets without them.

    At least one token of its prompt stays in every row. In a pack the token before it belongs to another row,
    so the first token of a row must not be trained.
    """
    prefix: list[int] | None = None
    for data in filter(None, (rows, test_rows)):
        batches = data.with_format("arrow")
        for start in range(0, len(batches), BATCH):
            prefix = _common(prefix, batches[start : start + BATCH])
    known = prefix or []
    return known, _behind(known, rows), test_rows and _behind(known, test_rows)


def _common(prefix: list[int] | None, rows: "Table") -> list[int]:
    """The tokens with which the prompts of rows begin, and the prefix too if there is one already."""
    import numpy

    tokens, starts = _column(rows, "input_ids")
    labels, _ = _column(rows, "labels")
    trained = numpy.flatnonzero(labels != NOT_TRAINED)
    lengths = trained[numpy.searchsorted(trained, starts[:-1])] - starts[:-1] - 1
    first = tokens[: lengths[0]] if prefix is None else numpy.array(prefix, tokens.dtype)
    longest = max(0, min(len(first), lengths.min()))
    beginnings = tokens[starts[:-1, None] + numpy.arange(longest)]
    differs = (beginnings != first[:longest]).any(axis=0)
    return first[: differs.argmax() if differs.any() else longest].tolist()


def _behind(prefix: list[int], rows: "Dataset") -> "Dataset":
    if not prefix:
        return rows
    # The library keeps the rows in a file, which all processes of a node map.
    return (
        rows.with_format("arrow")
        .map(partial(_cut, len(prefix)), batched=True, batch_size=BATCH)
        .with_format(None)
    )


def _cut(length: int, rows: "Table") -> "Table":
    """Rows without their first tokens."""
    import numpy
    import pyarrow

    columns = {}
    for name in rows.column_names:
        values, starts = _column(rows, name)
        stays = numpy.ones(len(values), bool)
        stays[starts[:-1, None] + numpy.arange(length)] = False
        ends = starts - length * numpy.arange(len(starts))
        columns[name] = pyarrow.ListArray.from_arrays(ends.astype(numpy.int32), values[stays])
    return pyarrow.table(columns)


def _column(rows: "Table", name: str) -> tuple[Any, Any]:
    """All tokens of a column one behind the other, and where each row begins, with the end of the last."""
    column = rows[name].combine_chunks()
    starts = column.offsets.to_numpy()
    return column.flatten().to_numpy(), starts - starts[0]


@dataclass(frozen=True)
class PrefixedBatch:
    """Collates packs of rows that lack their prefix, and puts the prefix in front of the pack."""

    prefix: list[int]
    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def __call__(self, packs: list[dict[str, Any]]) -> dict[str, "torch.Tensor"]:
        """Tensors of `[1, prefix + tokens]`, and the rows' bounds. The first bound is the prefix's end."""
        import torch

        batch = self.collate(packs)
        prefix = torch.tensor([self.prefix], dtype=batch["input_ids"].dtype)
        places = torch.arange(len(self.prefix))[None]
        return {
            "input_ids": torch.cat([prefix, batch["input_ids"]], dim=1),
            "labels": torch.cat([torch.full_like(prefix, NOT_TRAINED), batch["labels"]], dim=1),
            "position_ids": torch.cat([places, batch["position_ids"] + len(self.prefix)], dim=1),
            "cu_seq_lens_q": batch["cu_seq_lens_q"] + len(self.prefix),
        }
