"""The adapter: the layers that get one, told by the model itself, and what a merge of it would break."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from finetune.model.families import language_part
from finetune.model.first_adapter import check_first_weights
from finetune.settings.lora import Lora
from finetune.settings.recipe import Recipe
from shared.errors import InputError, one_line

if TYPE_CHECKING:
    from peft import LoraConfig

# Layers that choose the experts of a token. A change of theirs would send tokens to untrained experts.
_ROUTERS = {"gate", "router", "shared_expert_gate"}
# Layers of recurrent models that peft refuses, and these models.
_REFUSED = {"out_proj", "conv1d"}
_RECURRENT = {"falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"}
# Kinds of weights that a line names.
_NAMED = 4


def lora_config(lora: Lora, base: Any, revision: str | None = None) -> "LoraConfig":
    """The configuration of the adapter. It names the base model's `revision` and stores none of its weights.

    Raises InputError when no module of the base model matches it, or one that is not a single layer.
    """
    from peft import LoraConfig

    if lora.target_modules:
        _check_target_modules(lora.target_modules, base)
    _check_target_parameters(lora.target_parameters, base)
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.target_modules or linear_layers(base),
        target_parameters=[*lora.target_parameters] or None,
        use_rslora=lora.use_rslora,
        use_dora=lora.use_dora,
        task_type="CAUSAL_LM",
        revision=revision,
    )


def check_adapter(recipe: Recipe, base: Any) -> None:
    """Raises InputError when the base model cannot have the adapter, or its result cannot be merged.

    Prints a line about weights of the language model that the default adapter leaves out.

    Args:
        base: The base model, perhaps without its weights. It has the adapter afterwards.
    """
    from peft import get_peft_model

    if not (lora := recipe.lora):
        return
    tied = _tied(base) if recipe.training.result == "model" else []
    config = lora_config(lora, base)
    if not lora.target_modules and (line := left_out(base, str(config.target_modules), lora)):
        print(line, flush=True)
    try:
        adapted: Any = get_peft_model(base, config)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InputError(f"lora: peft cannot adapt {type(base).__name__}: {one_line(error)}") from error
    check_first_weights(recipe, adapted)
    if recipe.task == "preference" and hasattr(adapted.get_output_embeddings(), "lora_A"):
        raise InputError(
            "lora.target_modules matches the output layer, whose weights trl reads directly with task "
            "preference: leave it out"
        )
    changed = {name for name, module in adapted.base_model.model.named_modules() if hasattr(module, "lora_A")}
    if both := sorted(changed.intersection(tied)):
        raise InputError(
            f"lora.target_modules matches {both[0]}, whose weight is both the input embedding and the output "
            "layer; merged, the adapter of one would change the other: leave it out, or set "
            "training.result to adapter"
        )


def linear_layers(base: Any) -> str:
    """A regular expression for the linear layers of the language model, but its head and its routers."""
    layers = [name for name, module in _of_text(base) if _is_linear(module)]
    layers = [name for name in layers if not _is_left_alone(base, name)]
    others = _taken_for_experts(base, _pattern(layers))
    if not (pattern := _pattern(name for name in layers if name.split(".")[-1] not in others)):
        raise InputError(f"{type(base).__name__} has no linear layer for an adapter: set lora.target_modules")
    return pattern


def left_out(base: Any, pattern: str, lora: Lora) -> str | None:
    """A line about the weights of the language model that the adapter does not reach, or None."""
    from torch.nn import Embedding

    matched, named = re.compile(pattern), tuple(lora.target_parameters)
    sizes, total = defaultdict[str, int](int), 0
    for name, module in _of_text(base):
        if isinstance(module, Embedding) or _is_left_alone(base, name):
            continue
        for own, weight in module.named_parameters(recurse=False):
            path = f"{name}.{own}"
            # Norms and biases have one dimension, or one for each expert.
            if weight.ndim < 2 or own.endswith("bias"):
                continue
            total += weight.numel()
            if not matched.fullmatch(name) and not path.endswith(named):
                sizes[_kind(path, "N")] += weight.numel()
    if not sizes:
        return None
    largest = sorted(sizes, key=lambda kind: -sizes[kind])
    experts = any(".experts." in kind for kind in largest)
    remedy = "; lora.target_parameters can name experts" * experts
    more = f" and {len(largest) - _NAMED} more" * (len(largest) > _NAMED)
    return (
        f"the adapter leaves out {sum(sizes.values()) / total:.1%} of the language model's layers: "
        f"{', '.join(largest[:_NAMED])}{more}{remedy}"
    )


def _pattern(layers: Iterable[str]) -> str:
    """A regular expression for layers of any number with these names."""
    return "|".join(sorted({_kind(name, r"\d+") for name in layers}))


def _taken_for_experts(base: Any, pattern: str) -> set[str]:
    """The last names of matched layers that peft takes for experts: it would adapt those in their place.

    Experts were layers of such names before transformers 5. A mixture's dense layers still are.
    """
    from peft import LoraConfig
    from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers

    config = LoraConfig(target_modules=pattern)
    convert_peft_config_for_transformers(config, base, None)
    if isinstance(config.target_modules, str):
        return set()
    matched = re.compile(pattern)
    names = {name.split(".")[-1] for name, _ in base.named_modules() if matched.fullmatch(name)}
    return names - set(config.target_modules or ())


def _of_text(base: Any) -> Iterator[tuple[str, Any]]:
    """The modules of the language model, by their full names."""
    decoder = language_part(base)
    (prefix,) = (name for name, module in base.named_modules() if module is decoder)
    for name, module in decoder.named_modules():
        yield f"{prefix}.{name}".strip("."), module


def _is_linear(module: Any) -> bool:
    """Whether a module is one linear layer. Those of quantized weights have classes of their own."""
    # GPT-2's class has `nf` in place of these.
    sizes = hasattr(module, "in_features") and hasattr(module, "out_features")
    return (sizes or hasattr(module, "nf")) and not [*module.children()]


def _is_left_alone(base: Any, name: str) -> bool:
    parts = name.split(".")
    recurrent = base.config.get_text_config().model_type in _RECURRENT
    is_head = base.get_submodule(name) is base.get_output_embeddings()
    return bool(is_head or _ROUTERS.intersection(parts) or (recurrent and parts[-1] in _REFUSED))


def _kind(name: str, number: str) -> str:
    """The name with `number` in place of its numbers."""
    parts = (number if part.isdigit() else part for part in name.split("."))
    return (r"\." if number.startswith("\\") else ".").join(parts)


def _tied(base: Any) -> list[str]:
    """Names of the two ends of a model that share a weight, empty if they do not."""
    ends = (base.get_input_embeddings(), base.get_output_embeddings())
    # Not every configuration of a model with pictures says it of its text.
    if None in ends or len({id(end.weight) for end in ends}) > 1:
        return []
    return [name for name, module in base.named_modules() if any(module is end for end in ends)]


def _check_target_modules(wanted: str, base: Any) -> None:
    pattern = re.compile(wanted)
    matches = {name: module for name, module in base.named_modules() if pattern.fullmatch(name)}
    if not matches:
        raise InputError(f"lora.target_modules {wanted} matches no module of {type(base).__name__}")
    compound = next((name for name, module in matches.items() if [*module.children()]), None)
    if compound:
        raise InputError(
            f"lora.target_modules {wanted} matches {compound}, which is not one layer "
            f"({type(matches[compound]).__name__}); an adapter needs the names of layers"
        )
    if others := sorted(_taken_for_experts(base, wanted)):
        raise InputError(
            f"lora.target_modules {wanted} matches layers called {', '.join(others)}, in place of which peft "
            f"would adapt the experts of {type(base).__name__}: leave them out, and name experts in "
            "lora.target_parameters"
        )


def _check_target_parameters(wanted: Iterable[str], base: Any) -> None:
    names = [name for name, _ in base.named_parameters()]
    for parameter in wanted:
        if not any(f".{name}".endswith(f".{parameter}") for name in names):
            raise InputError(
                f"lora.target_parameters {parameter} is the end of no parameter's name in "
                f"{type(base).__name__}"
            )
