"""The published model, small and with random weights, in a folder that a recipe can name."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from finetune.model import shrink
from finetune.model.plain import read_config
from finetune.model.small_model import NoSmallModel, small_model


class NoTrial(Exception):
    """No trial is possible. The message is one line. It is no fault of the recipe."""


@dataclass(frozen=True, kw_only=True)
class SmallModel:
    """A folder as a repository of the Hub has it, and what to say of it."""

    folder: Path
    text: str


def make_small_model(published: Path, folder: Path) -> SmallModel:
    """Write a small model with the published configuration, tokenizer, template and generation settings.

    Args:
        published: The folder with the published files. It needs no weights.
        folder: The new folder.

    Raises:
        NoTrial: If no small model works.
    """
    config = read_config(published)
    folder.mkdir()
    try:
        model = small_model(shrink.forms(config), folder, torch.bfloat16)
    except NoSmallModel as error:
        raise NoTrial(f"no small model of {type(config).__name__} works ({error})") from error
    _save(model, published, folder)
    few, many = shrink.layers(model.config), shrink.layers(config)
    weights = sum(weight.numel() for weight in model.parameters())
    text = f"{type(model).__name__}, {few} of {many} layers, {weights / 1e6:.1f} million random weights"
    return SmallModel(folder=folder, text=text)


def _save(model: Any, published: Path, folder: Path) -> None:
    """Write the weights, and beside them everything that was published and is no weight."""
    model.save_pretrained(folder)
    for file in published.iterdir():
        if file.is_file() and file.name != "config.json" and ".safetensors" not in file.name:
            shutil.copyfile(file, folder / file.name)
