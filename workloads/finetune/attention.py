"""Attention over packed rows, each alone: what a pack saves elsewhere is not lost in one large masked square.

For a pack, transformers hands scaled_dot_product_attention a mask of all its tokens by all its tokens: with a
mask there is no flash kernel, and of 40 rows that do not see each other 39 in 40 scores are thrown away.
Here the rows of about one length stand side by side, filled up at their ends, where no earlier token looks.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

# Rows up to this many tokens are one group: below it another kernel costs more than what it leaves out.
SHORT_ROW = 64


@dataclass(frozen=True)
class _Group:
    """Rows of about one length; of each of their tokens its place in the pack, and in rows side by side."""

    rows: int
    longest: int
    tokens: torch.Tensor
    places: torch.Tensor

    def side_by_side(self, pack: torch.Tensor) -> torch.Tensor:
        """`[1, heads, tokens, width]` of the pack as `[rows, heads, longest, width]`."""
        by_token = pack[0].transpose(0, 1).index_select(0, self.tokens)
        filled = by_token.new_zeros(self.rows * self.longest, *by_token.shape[1:])
        filled = filled.index_copy(0, self.places, by_token)
        return filled.unflatten(0, (self.rows, self.longest)).transpose(1, 2)

    def window(self, tokens: int | None) -> torch.Tensor | None:
        """Which tokens see which, by position, where a row is longer than the layer's window."""
        if tokens is None or self.longest <= tokens:
            return None
        seen = torch.ones(self.longest, self.longest, dtype=torch.bool, device=self.tokens.device)
        return seen.tril().triu(1 - tokens)[None, None]


@dataclass(frozen=True)
class _Rows:
    """The groups of a pack, and where its tokens lie once they have been put one group after the other."""

    groups: list[_Group]
    order: torch.Tensor


# For every layer of a step the same, and asking a GPU for the rows' lengths makes it wait.
_rows: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def attend_within_rows(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    cu_seq_lens_q: torch.Tensor | None = None,
    sliding_window: int | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention of one pack, as transformers calls it; its rows begin and end at `cu_seq_lens_q`.

    `query` is `[1, heads, tokens, width]`, the result `[1, tokens, heads, width]`. Raises ValueError for rows
    that are not packed, whose filling this would look at.
    """
    if cu_seq_lens_q is None or len(query) != 1:
        raise ValueError("this model attends within the rows of a pack, and was given none (cu_seq_lens_q)")
    if cu_seq_lens_q not in _rows:
        _rows[cu_seq_lens_q] = _find_rows(cu_seq_lens_q, query.device)
    rows: _Rows = _rows[cu_seq_lens_q]
    attended = []
    for group in rows.groups:
        side_by_side = [group.side_by_side(states) for states in (query, key, value)]
        mask = group.window(sliding_window)
        result, _none = sdpa_attention_forward(module, *side_by_side, mask, dropout=dropout, scaling=scaling)
        attended.append(result.flatten(0, 1).index_select(0, group.places))
    return torch.cat(attended).index_select(0, rows.order)[None], None


def _find_rows(bounds: torch.Tensor, device: torch.device) -> _Rows:
    ends = bounds.tolist()
    by_size: dict[int, list[range]] = {}
    for row in map(range, ends, ends[1:]):
        # Up to twice the length of another in the group: at most half of the places stay empty.
        by_size.setdefault(max(SHORT_ROW, 1 << (len(row) - 1).bit_length()), []).append(row)
    groups = [_group(rows, device) for rows in by_size.values()]
    return _Rows(groups, torch.cat([group.tokens for group in groups]).argsort())


def _group(rows: list[range], device: torch.device) -> _Group:
    longest = max(len(row) for row in rows)
    tokens = torch.cat([torch.arange(row.start, row.stop) for row in rows])
    places = torch.cat([torch.arange(len(row)) + number * longest for number, row in enumerate(rows)])
    return _Group(len(rows), longest, tokens.to(device), places.to(device))


PACKED_ROWS = "packed_rows"
# A name without a mask of its own in transformers, which then builds none.
AttentionInterface.register(PACKED_ROWS, attend_within_rows)
