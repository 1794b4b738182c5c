"""Attention over packed rows, each alone: what a pack saves elsewhere is not lost in one large masked square.

For a pack, transformers hands scaled_dot_product_attention a mask of all its tokens by all its tokens: with a
mask there is no flash kernel, and of 40 rows that do not see each other 39 in 40 scores are thrown away.
Here the rows of about one length stand side by side, each behind a copy of the prefix that the pack has once,
and filled up at their ends, where no earlier token looks.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

# Rows up to this many tokens are one group: below it another kernel costs more than what it leaves out.
SHORT_ROW = 128


@dataclass(frozen=True)
class _Group:
    """Rows of about one length, their prefix included."""

    rows: int
    longest: int

    def window(self, tokens: int | None, device: torch.device) -> torch.Tensor | None:
        """Which tokens see which, by position, where a row is longer than the layer's window."""
        if tokens is None or self.longest <= tokens:
            return None
        seen = torch.ones(self.longest, self.longest, dtype=torch.bool, device=device)
        return seen.tril().triu(1 - tokens)[None, None]


@dataclass(frozen=True)
class _Rows:
    """The groups of a pack, and where each token is when all their rows, filled up, lie end to end.

    First come the places of the prefix in every row, then those of the other tokens.
    """

    prefix: int
    groups: list[_Group]
    places: torch.Tensor

    def side_by_side(self, pack: torch.Tensor) -> list[torch.Tensor]:
        """`[1, heads, tokens, width]` as `[rows, heads, longest, width]` of each group."""
        prefix, others = pack[0].transpose(0, 1).tensor_split([self.prefix])
        copies = prefix.repeat(sum(group.rows for group in self.groups), 1, 1)
        sizes = [group.rows * group.longest for group in self.groups]
        filled = pack.new_zeros(sum(sizes), *others.shape[1:])
        filled = filled.index_copy(0, self.places, torch.cat([copies, others]))
        return [
            states.unflatten(0, (group.rows, group.longest)).transpose(1, 2)
            for group, states in zip(self.groups, filled.split(sizes), strict=True)
        ]

    def packed(self, attended: list[torch.Tensor]) -> torch.Tensor:
        """`[rows, longest, heads, width]` of each group as `[1, tokens, heads, width]`, one prefix left."""
        copies = sum(group.rows for group in self.groups) - 1
        filled = torch.cat([states.flatten(0, 1) for states in attended])
        return filled.index_select(0, self.places[copies * self.prefix :])[None]


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

    What stands before the first of them is the prefix of every row. `query` is `[1, heads, tokens, width]`,
    the result `[1, tokens, heads, width]`. Raises ValueError for rows that are not packed, whose filling this
    would look at.
    """
    if cu_seq_lens_q is None or len(query) != 1:
        raise ValueError("this model attends within the rows of a pack, and was given none (cu_seq_lens_q)")
    if cu_seq_lens_q not in _rows:
        _rows[cu_seq_lens_q] = _find_rows(cu_seq_lens_q, query.device)
    rows: _Rows = _rows[cu_seq_lens_q]
    attended = []
    for group, *states in zip(rows.groups, *map(rows.side_by_side, (query, key, value)), strict=True):
        mask = group.window(sliding_window, query.device)
        result, _weights = sdpa_attention_forward(module, *states, mask, dropout=dropout, scaling=scaling)
        attended.append(result)
    return rows.packed(attended), None


def _find_rows(bounds: torch.Tensor, device: torch.device) -> _Rows:
    prefix, *ends = bounds.tolist()
    by_size: dict[int, list[range]] = {}
    for row in map(range, [prefix, *ends], ends):
        # Beyond SHORT_ROW up to twice as long as others in the group: at most half of the places stay empty.
        by_size.setdefault(max(SHORT_ROW, 1 << (prefix + len(row) - 1).bit_length()), []).append(row)
    groups, copies, places, start = [], [], torch.empty(ends[-1] - prefix, dtype=torch.long), 0
    for alike in by_size.values():
        group = _Group(len(alike), prefix + max(map(len, alike)))
        for row in alike:
            copies.append(torch.arange(prefix) + start)
            places[row.start - prefix : row.stop - prefix] = torch.arange(len(row)) + start + prefix
            start += group.longest
        groups.append(group)
    return _Rows(prefix, groups, torch.cat([*copies, places]).to(device))


PACKED_ROWS = "packed_rows"
# A name without a mask of its own in transformers, which then builds none.
AttentionInterface.register(PACKED_ROWS, attend_within_rows)
