"""The published model, small and with random weights, in a folder that a recipe can name."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from ending.errors import one_line
from finetune.families import auto_class
from trial import shrink

# More weights than this, in a form with the published widths, would take minutes and many GB.
MOST = 300_000_000
# Any tokens will do to see whether the small model works at all.
TOKENS = 16


class NoTrial(Exception):
    """No small model of this architecture works. The message is one line. It is no fault of the recipe."""


@dataclass(frozen=True, kw_only=True)
class SmallModel:
    """A folder as a repository of the Hub has it, and what to say of it."""

    folder: Path
    text: str


def make_small_model(published: Path, folder: Path) -> SmallModel:
    """Write a small model with the published configuration, tokenizer, template and generation settings.

    The forms of `shrink` are tried in turn, until a plain pass forward and back works.

    Args:
        published: The folder with the published files. It needs no weights.
        folder: The new folder.

    Raises:
        NoTrial: If none works.
    """
    config = AutoConfig.from_pretrained(published, local_files_only=True)
    problems = []
    for form, tree in shrink.forms(config).items():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            model = _make(tree, folder)
            _try(model)
        # An architecture may raise anything for values that its author never had.
        except Exception as error:
            problems.append(f"{form}: {type(error).__name__}: {one_line(error)[:120]}")
            continue
        _save(model, published, folder)
        few, many = shrink.layers(model.config), shrink.layers(config)
        weights = sum(weight.numel() for weight in model.parameters())
        text = f"{type(model).__name__}, {few} of {many} layers, {weights / 1e6:.1f} million random weights"
        return SmallModel(folder=folder, text=text)
    raise NoTrial(f"no small model of {type(config).__name__} works ({'; '.join(problems)})")


def _make(tree: dict[str, Any], folder: Path) -> Any:
    (folder / "config.json").write_text(json.dumps(tree, default=str))
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    loading = auto_class(config)
    with torch.device("meta"):
        count = sum(weight.numel() for weight in loading.from_config(config).parameters())
    if count > MOST:
        raise ValueError(f"{count / 1e9:.1f} billion weights")
    torch.manual_seed(0)
    return loading.from_config(config, dtype=torch.bfloat16)


def _try(model: Any) -> None:
    """Raises what the model does in a plain pass, and ValueError if its loss is not finite."""
    tokens = torch.arange(3, 3 + TOKENS)[None] % model.config.get_text_config().vocab_size
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    if not torch.isfinite(loss):
        raise ValueError("its loss is not finite")


def _save(model: Any, published: Path, folder: Path) -> None:
    """Write the weights, and beside them everything that was published and is no weight."""
    model.zero_grad(set_to_none=True)
    model.save_pretrained(folder)
    for file in published.iterdir():
        if file.is_file() and file.name != "config.json" and ".safetensors" not in file.name:
            shutil.copyfile(file, folder / file.name)
