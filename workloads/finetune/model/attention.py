"""Attention over a pack of rows that computes only the scores within each row.

For a pack, transformers passes scaled_dot_product_attention a mask of all its tokens by all its tokens. A
mask rules out the flash kernel. With 40 rows that may not attend to each other, 39 of 40 scores are computed
for nothing. Here the pack is split into batches of rows of similar length. Each row gets its own copy of the
prefix, which the pack holds once. It also gets padding at its end, to which no earlier token attends because
attention is causal.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from finetune.model.families import text_attention
from shared.errors import InputError

# Arguments that the attention of a pack may leave out: they say what it knows from the bounds of the rows, or
# ask for more than the result.
NO_EFFECT = frozenset(
    {
        "cu_seq_lens_k",
        "is_causal",
        "logits_to_keep",
        "max_length_k",
        "max_length_q",
        "num_items_in_batch",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "position_ids",
        "return_dict",
        "use_cache",
    }
)
REMEDY = "; set training.packing to false"
# Rows of up to this many tokens share a group: another kernel call costs more than their padding.
SHORT_ROW = 128


@dataclass(frozen=True)
class _Group:
    """A batch of rows of similar length. `longest` counts tokens, the prefix included."""

    rows: int
    longest: int

    def window(self, tokens: int | None, device: torch.device) -> torch.Tensor | None:
        """The mask of a sliding window of `tokens`, or None when no row is longer than the window."""
        if tokens is None or self.longest <= tokens:
            return None
        seen = torch.ones(self.longest, self.longest, dtype=torch.bool, device=device)
        return seen.tril().triu(1 - tokens)[None, None]


@dataclass(frozen=True)
class _Rows:
    """The groups of a pack, and the index of each token in the padded rows of all groups laid end to end.

    `places` has the indices of each row's copy of the prefix first, then those of the other tokens.
    """

    prefix: int
    groups: list[_Group]
    places: torch.Tensor

    def split(self, pack: torch.Tensor) -> list[torch.Tensor]:
        """Split `[1, heads, tokens, width]` into `[rows, heads, longest, width]` for each group."""
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
        """Join the groups' `[rows, longest, heads, width]` to `[1, tokens, heads, width]` with one prefix."""
        copies = sum(group.rows for group in self.groups) - 1
        filled = torch.cat([states.flatten(0, 1) for states in attended])
        return filled.index_select(0, self.places[copies * self.prefix :])[None]


# Cached by the tensor of bounds, which all layers of a step share: reading it from a GPU waits for the GPU.
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
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within the rows of one pack, with the signature that transformers calls.

    `cu_seq_lens_q` has the bounds of the rows. The tokens before the first bound are the prefix of every row.
    `query` is `[1, heads, tokens, width]`, the result `[1, tokens, heads, width]`. Raises InputError for a
    batch that is not one pack: its rows would attend to its padding. The same for an argument that may change
    the scores, such as `softcap`: to leave it out would train another model.
    """
    names = {name for name, value in others.items() if value is not None and value is not False}
    unknown = sorted(names - NO_EFFECT)
    if others.get("is_causal") is False:
        unknown.append("is_causal=False")
    if unknown:
        raise InputError(
            f"{type(module).__name__} attends in a way that packs do not know ({', '.join(unknown)}){REMEDY}"
        )
    if cu_seq_lens_q is None or len(query) != 1:
        raise InputError(
            f"{type(module).__name__} is given no bounds of the rows in a pack (cu_seq_lens_q){REMEDY}"
        )
    if cu_seq_lens_q not in _rows:
        _rows[cu_seq_lens_q] = _find_rows(cu_seq_lens_q, query.device)
    rows: _Rows = _rows[cu_seq_lens_q]
    attended = []
    for group, *states in zip(rows.groups, *map(rows.split, (query, key, value)), strict=True):
        mask = group.window(sliding_window, query.device)
        result, _weights = sdpa_attention_forward(module, *states, mask, dropout=dropout, scaling=scaling)
        attended.append(result)
    return rows.packed(attended), None


def _find_rows(bounds: torch.Tensor, device: torch.device) -> _Rows:
    prefix, *ends = bounds.tolist()
    by_size: dict[int, list[range]] = {}
    for row in map(range, [prefix, *ends], ends):
        # Groups end at powers of two above SHORT_ROW, so that at most half of a group is padding.
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
# transformers has no mask function of this name, so it builds no mask.
AttentionInterface.register(PACKED_ROWS, attend_within_rows)


@contextmanager
def attention_of_rows(model: Any) -> Generator[None]:
    """In this context a model that is trained on packs takes a batch of rows. Any other stays as it is."""
    from peft import PeftModel

    base = model.get_base_model() if isinstance(model, PeftModel) else model
    if base.config._attn_implementation != PACKED_ROWS:
        yield
        return
    base.set_attn_implementation(text_attention(base.config, "sdpa"))
    try:
        yield
    finally:
        base.set_attn_implementation(text_attention(base.config, PACKED_ROWS))
