"""What a model does with rows, found with a small copy of it that has random weights.

Two rows go through the copy in one pack and alone. No list of families tells whether the results are equal:
a row sees another by its attention, by a convolution, by a state, or by positions. In some models a token
also sees those behind it. A run would train such a model to the end, and it would be useless.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from finetune.model import shrink
from finetune.model.attention import PACKED_ROWS, REMEDY
from finetune.model.families import text_attention
from finetune.model.small_model import small_model
from shared.errors import InputError, one_line

# Tokens of what both rows begin with, and of each row behind it.
PREFIX, ROWS = 3, (9, 14)
# Windows and chunks of the copy are shorter than its rows, and its vocabulary takes no time.
WINDOWS = (
    "attention_chunk_size",
    "attention_window_size",
    "keep_window_size",
    "sliding_window",
    "sliding_window_size",
    "window_size",
)
WINDOW = 5
VOCABULARIES = ("vocab_size", "vocab_size_per_layer_input")
VOCABULARY = 64
# More weights would take more than a second or two.
MOST = 150_000_000
# Share of the scores' spread. Rounding comes to 1e-5 of it, and the least of another row or token to 0.003.
TOLERANCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What a token of a model sees.

    Attributes:
        model: The class of the model.
        is_causal: Whether it sees nothing behind itself.
        not_packed: Why rows cannot share a pack, or None if they can.
    """

    model: str
    is_causal: bool
    not_packed: str | None


def see(config: Any) -> Sight:
    """Find out what a token of the model sees. Leaves the state of random numbers as it was.

    Raises:
        NoSmallModel: If no small copy works.
    """
    trees = {form: _with_short_windows(tree) for form, tree in shrink.forms(config).items()}
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        model = small_model(trees, Path(folder), torch.float32, MOST).eval()
        torch.manual_seed(1)
        known = model.config.get_text_config().vocab_size
        prefix, *rows = torch.randint(3, known, (PREFIX + sum(ROWS),)).split((PREFIX, *ROWS))
        with torch.no_grad():
            return _compare(model, prefix, rows, known)


def _with_short_windows(tree: dict[str, Any]) -> dict[str, Any]:
    for part in (tree, tree.get("text_config") or tree):
        sizes = dict.fromkeys(WINDOWS, WINDOW) | dict.fromkeys(VOCABULARIES, VOCABULARY)
        sizes["pad_token_id"] = VOCABULARY - 1
        for name, most in sizes.items():
            if isinstance(part.get(name), int):
                part[name] = min(part[name], most)
    return tree


def _compare(model: Any, prefix: torch.Tensor, rows: list[torch.Tensor], known: int) -> Sight:
    """Compare the scores of rows alone with those after another last token, and with those in a pack."""
    alone = [_scores(model, torch.cat([prefix, row])) for row in rows]
    tolerance = TOLERANCE * float(alone[0].std())
    other = torch.cat([prefix, rows[0]])
    other[-1] = (other[-1] + 1) % known
    is_causal = _difference(_scores(model, other)[:-1], alone[0][:-1]) <= tolerance
    bounds = torch.tensor([0, *ROWS]).cumsum(0).int() + PREFIX
    places = torch.cat([torch.arange(PREFIX), *(torch.arange(count) + PREFIX for count in ROWS)])
    name, not_packed = type(model).__name__, None
    try:
        model.set_attn_implementation(text_attention(model.config, PACKED_ROWS))
        pack = _scores(model, torch.cat([prefix, *rows]), position_ids=places[None], cu_seq_lens_q=bounds)
    except InputError as error:
        not_packed = str(error).removesuffix(REMEDY)
    # A model may raise anything for a pack.
    except Exception as error:
        not_packed = f"{name} takes no packs: {type(error).__name__}: {one_line(error)}"
    else:
        if _difference(pack, torch.cat(alone)) > tolerance:
            not_packed = f"{name} computes a row in a pack otherwise than alone"
    return Sight(model=name, is_causal=is_causal, not_packed=not_packed)


def _scores(model: Any, tokens: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
    """The scores of the tokens behind the prefix."""
    return model(input_ids=tokens[None], use_cache=False, **more).logits[0, PREFIX:]


def _difference(scores: torch.Tensor, others: torch.Tensor) -> float:
    """The greatest one. That of numbers that are none is none, too."""
    return float((scores - others).abs().max().nan_to_num(torch.inf))
