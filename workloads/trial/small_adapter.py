"""An adapter of a trial's small model, in place of the one with which a run begins."""

from pathlib import Path

import torch

from finetune.model.adapter import lora_config
from finetune.model.loading import load_model
from finetune.settings.recipe import Recipe

# So small that the model still writes what it wrote.
SPREAD = 1e-3


def make_small_adapter(recipe: Recipe, folder: Path) -> str:
    """Write an adapter of the recipe's own kind and random weights. Returns its folder."""
    from peft import get_peft_model

    assert recipe.lora
    base = load_model(recipe.model, torch.device("cpu"))
    adapted = get_peft_model(base, lora_config(recipe.lora, base))
    torch.manual_seed(recipe.training.seed)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=SPREAD)
    adapted.save_pretrained(str(folder))
    return str(folder)
