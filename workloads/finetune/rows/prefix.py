"""The tokens that all rows begin with go through the model once per batch, not once per row.

The instructions of a prompt are the same in every row. In a causal model later tokens do not change the
states of earlier ones. So rows that share one copy of the prefix have the same losses and gradients as rows
with their own copies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from finetune.rows.tokens import NOT_TRAINED

if TYPE_CHECKING:
    import torch
    from datasets import Dataset


def split_off_prefix(
    rows: "Dataset", test_rows: "Dataset | None"
) -> "tuple[list[int], Dataset, Dataset | None]":
    """The tokens that all rows begin with, and both data sets without them.

    At least one token of its prompt stays in every row. In a pack the token before it belongs to another row,
    so the first token of a row must not be trained.
    """
    prompts = []
    for data in filter(None, (rows, test_rows)):
        for tokens, labels in zip(data["input_ids"], data["labels"], strict=True):
            first_trained = next(at for at, label in enumerate(labels) if label != NOT_TRAINED)
            prompts.append(tokens[: first_trained - 1])
    # In sorted order, all prompts begin with the tokens that the first and the last begin with.
    pairs = zip(min(prompts, default=[]), max(prompts, default=[]), strict=False)
    prefix = [first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return prefix, _behind(prefix, rows), test_rows and _behind(prefix, test_rows)


def _behind(prefix: list[int], rows: "Dataset") -> "Dataset":
    from datasets import Dataset

    columns = {name: [row[len(prefix) :] for row in rows[name]] for name in rows.column_names}
    return Dataset.from_dict(columns, features=rows.features)


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
