"""What all rows begin with goes through the model once a batch, not once a row.

A prompt's instructions are the same in every row, and in a causal model nothing that follows changes what
becomes of them: rows that share a copy have the losses and the gradients of rows with a copy each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from finetune.tokens import NOT_TRAINED

if TYPE_CHECKING:
    import torch
    from datasets import Dataset


def split_off_prefix(
    rows: "Dataset", test_rows: "Dataset | None"
) -> "tuple[list[int], Dataset, Dataset | None]":
    """The tokens that all rows begin with, and both data sets from behind these on.

    Some of its prompt stays with every row: what stands before it in a pack is another row, so its first
    token must be one that is not trained.
    """
    prompts = [
        tokens[: labels.count(NOT_TRAINED) - 1]
        for data in filter(None, (rows, test_rows))
        for tokens, labels in zip(data["input_ids"], data["labels"], strict=True)
    ]
    # In sorted order, what the first and the last prompt share is what all of them share.
    pairs = zip(min(prompts, default=[]), max(prompts, default=[]), strict=False)
    prefix = [first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return prefix, _behind(prefix, rows), test_rows and _behind(prefix, test_rows)


def _behind(prefix: list[int], rows: "Dataset") -> "Dataset":
    from datasets import Dataset

    columns = {name: [row[len(prefix) :] for row in rows[name]] for name in rows.column_names}
    return Dataset.from_dict(columns, features=rows.features)


@dataclass(frozen=True)
class PrefixedBatch:
    """Collates packs of rows without their prefix, which it puts in front, once."""

    prefix: list[int]
    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def __call__(self, packs: list[dict[str, Any]]) -> dict[str, "torch.Tensor"]:
        """All of `[1, prefix + tokens]`, but for the rows' bounds, the first of which is the prefix's end."""
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
