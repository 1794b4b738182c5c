"""Liger's fused kernels, for which a recipe asks with `training.trl.use_liger_kernel`."""

from typing import Any

from finetune.model.families import model_class
from finetune.settings.recipe import Recipe
from finetune.settings.trl_fields import LIGER
from shared.errors import InputError


def check_kernels(recipe: Recipe, config: Any) -> None:
    """Raises InputError when the recipe asks for kernels that the image or liger does not have for the model.

    transformers would train such a model without them, and say nothing.
    """
    from transformers.utils import is_liger_kernel_available

    if not recipe.liger:
        return
    if not is_liger_kernel_available():
        raise InputError(f"training.trl: {LIGER} needs the package liger-kernel, which is not installed")
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    kind = model_class(config).config_class.model_type
    if kind not in MODEL_TYPE_TO_APPLY_LIGER_FN:
        raise InputError(
            f"training.trl: liger-kernel has no kernels for {recipe.model.name}, a model of type {kind}: "
            f"leave {LIGER} out"
        )


def check_gpu(recipe: Recipe) -> None:
    """Raises InputError when the recipe asks for kernels of a GPU and this machine has none."""
    import torch

    if recipe.liger and not torch.cuda.is_available():
        raise InputError(
            f"training.trl: {LIGER} needs a GPU, and this machine has none: leave it out here, with "
            f"--set training.trl.{LIGER}=false"
        )
