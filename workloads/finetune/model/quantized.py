"""Models that are published with quantized weights: what a run can do with them, and how they are loaded."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finetune.settings.recipe import Recipe

# Methods whose weights transformers turns into plain ones when it loads them, and its class for each.
PLAIN = {"mxfp4": "Mxfp4Config", "fp8": "FineGrainedFP8Config"}


def method(config: Any) -> str | None:
    """How the model's published weights are quantized, or None if they are plain numbers."""
    for part in (config, config.get_text_config()):
        settings = getattr(part, "quantization_config", None)
        if settings:
            named = settings if isinstance(settings, dict) else vars(settings)
            return str(getattr(named.get("quant_method"), "value", named.get("quant_method", "unknown")))
    return None


def plain_weights(config: Any) -> dict[str, Any]:
    """Options of `from_pretrained` with which the weights are loaded as plain numbers, if they can be."""
    import transformers

    name = method(config)
    return (
        {"quantization_config": getattr(transformers, PLAIN[name])(dequantize=True)} if name in PLAIN else {}
    )


def quantized_problems(recipe: "Recipe", config: Any) -> Iterator[str]:
    """What a recipe asks of a model with quantized weights that cannot be done."""
    name = method(config)
    if name is None:
        return
    published = f"model {recipe.model.name} is published with {name} weights"
    if recipe.model.quantization != "none":
        yield f"{published}, which are not quantized again: leave out model.quantization"
    elif name not in PLAIN and not recipe.lora:
        yield f"{published}, which cannot be trained: add lora, or take the model with 16-bit weights"
    elif name not in PLAIN and recipe.training.result == "model":
        yield (
            f"{published}, into which no adapter is merged: set training.result to adapter, or take the "
            "model with 16-bit weights"
        )
