"""A small model of a published architecture, with random weights."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from finetune.model.families import auto_class
from shared.errors import one_line
from shared.model_files import FROM_DISK

# More weights than this, in a form with the published widths, would take minutes and many GB.
MOST = 300_000_000
# Any tokens will do to see whether the small model works at all.
TOKENS = 16


class NoSmallModel(Exception):
    """No small model of this architecture works. The message is one line. It is no fault of the recipe."""


def small_model(trees: dict[str, dict[str, Any]], folder: Path, dtype: torch.dtype, most: int = MOST) -> Any:
    """The first of the forms of `shrink` with which a plain pass forward and back works.

    Args:
        trees: The forms, by name.
        folder: Where config.json of the model is written.
        dtype: The number format of its weights.
        most: Weights that a form may have.

    Raises:
        NoSmallModel: If none works.
    """
    problems = []
    for form, tree in trees.items():
        try:
            model = _make(tree, folder, dtype, most)
            _try(model)
        # An architecture may raise anything for values that its author never had.
        except Exception as error:
            problems.append(f"{form}: {type(error).__name__}: {one_line(error)[:120]}")
            continue
        model.zero_grad(set_to_none=True)
        return model
    raise NoSmallModel("; ".join(problems))


def _make(tree: dict[str, Any], folder: Path, dtype: torch.dtype, most: int) -> Any:
    (folder / "config.json").write_text(json.dumps(tree, default=str))
    config = AutoConfig.from_pretrained(folder, **FROM_DISK)
    loading = auto_class(config)
    with torch.device("meta"):
        empty = loading.from_config(config, trust_remote_code=False)
    count = sum(weight.numel() for weight in empty.parameters())
    if count > most:
        raise ValueError(f"{count / 1e9:.1f} billion weights")
    torch.manual_seed(0)
    return loading.from_config(config, dtype=dtype, trust_remote_code=False)


def _try(model: Any) -> None:
    """Raises what the model does in a plain pass, and ValueError if its loss is not finite."""
    tokens = torch.arange(3, 3 + TOKENS)[None] % model.config.get_text_config().vocab_size
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    if not torch.isfinite(loss):
        raise ValueError("its loss is not finite")
