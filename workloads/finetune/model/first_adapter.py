"""The adapter with which a run begins: whether it fits the base model, and its place in a recipe."""

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from finetune.settings.lora import Lora
from finetune.settings.recipe import Recipe
from finetune.settings.sections import Model
from finetune.storage.adapter_files import CONFIG, WEIGHTS, AdapterFiles, fetch_adapter
from shared.errors import InputError, one_line

# The name by which trl asks for the adapter of its reference model.
REFERENCE = "ref"
# Keys of PEFT's configuration by the keys of a recipe's section.
_KEYS = {
    "rank": "r",
    "alpha": "lora_alpha",
    "dropout": "lora_dropout",
    "target_modules": "target_modules",
    "target_parameters": "target_parameters",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
}
# Keys that say nothing about the adapter's layers, once its weights are there.
_ASIDE = {
    *("base_model_name_or_path", "revision", "peft_type", "peft_version", "task_type", "inference_mode"),
    *("auto_mapping", "init_lora_weights", "runtime_config", "megatron_config", "megatron_core"),
    *("eva_config", "loftq_config", "corda_config", "qalora_group_size", "ensure_weight_tying"),
}


def with_first_adapter(recipe: Recipe) -> Recipe:
    """The recipe with the section lora of the adapter with which the run begins, if there is one.

    Raises InputError when there is no such adapter, and when it is another model's or of another kind.
    """
    files = fetch_adapter(recipe.model)
    if files is None:
        return recipe
    _check_base(recipe.model, files)
    lora = _section(recipe.model, files.config)
    if recipe.task == "preference":
        # trl switches dropout off.
        lora = lora.model_copy(update={"dropout": 0.0})
    return recipe.model_copy(update={"lora": lora})


def check_first_weights(recipe: Recipe, adapted: Any) -> None:
    """Raises InputError unless an adapter's file has the weights of the model's adapter, by name and shape.

    Args:
        adapted: The model with the adapter, perhaps without weights.
    """
    from peft import get_peft_model_state_dict
    from safetensors import SafetensorError, safe_open

    if not (files := fetch_adapter(recipe.model)):
        return
    wanted = {name: [*weight.shape] for name, weight in get_peft_model_state_dict(adapted).items()}
    try:
        with safe_open(files.folder / WEIGHTS, "pt") as tensors:
            present = {name: tensors.get_slice(name).get_shape() for name in [*tensors.keys()]}
    except SafetensorError as error:
        raise InputError(f"{WEIGHTS} of model.adapter {recipe.model.adapter}: {one_line(error)}") from error
    different = sorted(name for name in wanted.keys() | present if wanted.get(name) != present.get(name))
    if different:
        name = different[0]
        raise InputError(
            f"model.adapter {recipe.model.adapter} is none of {recipe.model.name}: {name} is "
            f"{present.get(name, 'absent')} in its file, and {wanted.get(name, 'absent')} in the model"
        )


def load_first_weights(folder: Path, adapted: Any) -> None:
    """Load the weights of an adapter into a model's new one. Processes without weights wait for theirs."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    if not any(weight.is_meta for weight in adapted.parameters()):
        set_peft_model_state_dict(adapted, load_file(folder / WEIGHTS))


def hold_reference(adapted: Any) -> None:
    """Keep a copy of a model's adapter, frozen, under the name by which trl asks for its reference."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    adapted.add_adapter(REFERENCE, adapted.peft_config["default"])
    set_peft_model_state_dict(adapted, get_peft_model_state_dict(adapted), adapter_name=REFERENCE)
    adapted.set_adapter("default")


def _check_base(model: Model, files: AdapterFiles) -> None:
    problem = ""
    if files.base != model.name:
        problem = f"trained on {files.base or 'no model that it names'}, and model.name is {model.name}"
    elif files.revision and model.revision and files.revision != model.revision:
        problem = (
            f"trained on commit {files.revision} of its base, and the run has {model.revision}: set "
            f"model.revision to {files.revision}"
        )
    elif files.quantization and files.quantization != model.quantization:
        problem = f"trained on weights with model.quantization {files.quantization}: set it to the same"
    if problem:
        raise InputError(f"model.adapter {model.adapter} was {problem}")


def _section(model: Model, config: dict[str, Any]) -> Lora:
    """The section lora of an adapter. Raises InputError for a kind that a recipe does not have."""
    from peft import LoraConfig

    whose = f"{CONFIG} of model.adapter {model.adapter}"
    if config.get("peft_type") != "LORA":
        raise InputError(f"{whose} has peft_type {config.get('peft_type')!r}, and a run trains LORA alone")
    defaults = LoraConfig().to_dict()
    for key, value in config.items():
        if key in _ASIDE or key in _KEYS.values() or value == defaults.get(key):
            continue
        if value not in (None, False, [], {}):
            raise InputError(f"{whose} has {key}, which a run cannot continue: {one_line(ValueError(value))}")
    own = {name: config[key] for name, key in _KEYS.items() if config.get(key) is not None}
    if isinstance(names := own.get("target_modules"), list):
        own["target_modules"] = rf"(.*\.)?({'|'.join(sorted(re.escape(str(name)) for name in names))})"
    if isinstance(named := own.get("target_parameters"), list):
        own["target_parameters"] = sorted(map(str, named))
    try:
        return Lora.model_validate(own)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{whose}: {_KEYS[str(first['loc'][0])]} {first['msg']}") from None
