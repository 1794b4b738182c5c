"""The weights of a model and of its adapter, counted without reading one, and the memory of a step."""

from typing import Any

from finetune.model.adapter import check_adapter
from finetune.model.loading import config_in_cache, empty_model
from finetune.settings.choice import Size
from finetune.settings.recipe import Recipe

# Activations of a token in a layer, in values for each of the states and of the states between, and in 16
# bits. The figures of recipes/fit.json, computed for Gemma 3 of 1B to 12B, are 3 to 16 % below.
STATES, BETWEEN = 20, 4.5
# Bytes of a trained weight of an adapter: itself, its gradient, AdamW's two states, and the buckets of
# several processes. Without an adapter, weights are in 32 bits and have no buckets on one GPU.
ADAPTER, WHOLE = 20, 20
# Bytes of a weight in 4 bits, with the embedding that has more.
NF4 = 0.75
# Share of the weights that shards gather at a time.
GATHERED = 0.15


def count_parameters(recipe: Recipe) -> tuple[int, int]:
    """The number of trainable parameters and of all parameters, of the model with its adapter."""
    from finetune.model.all_weights import choose_weights

    base = empty_model(recipe.model)
    if recipe.lora:
        check_adapter(recipe, base)
    else:
        choose_weights(base, pictures=recipe.data.image is not None)
    weights = [*base.parameters()]
    trained = (weight.numel() for weight in weights if weight.requires_grad)
    return sum(trained), sum(weight.numel() for weight in weights)


def size_of(recipe: Recipe, memory: float, processes: int) -> Size | None:
    """The model of a recipe on GPUs with so many bytes each, or None if its configuration does not say."""
    config: Any = config_in_cache(recipe.model).get_text_config()
    try:
        layers, states = config.num_hidden_layers, config.hidden_size
        between = _between(config, states)
    except (AttributeError, TypeError):
        return None
    width = 2 if recipe.model.precision == "bf16" else 4
    trained, weights = count_parameters(recipe)
    shares = processes if recipe.training.sharding == "fsdp2" else 1
    # Experts of a mixture are no layers, and stay in 16 bits.
    in_4_bits = recipe.model.quantization == "nf4" and _experts(config) == 1
    frozen = (weights - trained) * (NF4 if in_4_bits else width)
    fixed = (frozen + trained * (ADAPTER if recipe.lora else WHOLE)) / shares
    if shares > 1:
        fixed += GATHERED * weights * width
    layer = width * (STATES * states + BETWEEN * between)
    return Size(
        memory=memory,
        fixed=fixed,
        kept=layers * layer,
        recomputed=2 * width * layers * states + 2 * layer,
    )


def _between(config: Any, states: int) -> float:
    """The width of a layer's feed-forward part, or of the experts that a token goes through."""
    whole = getattr(config, "intermediate_size", None) or 4 * states
    whole = max(whole) if isinstance(whole, list | tuple) else whole
    expert = getattr(config, "moe_intermediate_size", None) or whole
    return max(whole, expert * _experts(config))


def _experts(config: Any) -> int:
    """Through how many experts a token goes, 1 without a mixture."""
    return getattr(config, "num_experts_per_tok", None) or 1


def positions_of(recipe: Recipe) -> int | None:
    """The longest sequence that a model takes, if its configuration says it."""
    config = config_in_cache(recipe.model).get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None
