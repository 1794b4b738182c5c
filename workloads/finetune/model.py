"""The base model and its adapter: access, download, 4-bit loading, LoRA, proof that a saved adapter loads."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finetune.errors import InputError
from finetune.recipe import Lora, Model

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig, PeftModel

# Weights in one format only, and no code.
MODEL_FILES = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]


def check_model(name: str) -> None:
    """Fetch the model's configuration; raises InputError when the model is absent, gated or out of reach."""
    import huggingface_hub
    from huggingface_hub import errors

    if Path(name).is_absolute():
        if not Path(name, "config.json").is_file():
            raise InputError(f"model {name} is not a directory with a config.json")
        return
    try:
        huggingface_hub.hf_hub_download(name, "config.json")
    except errors.GatedRepoError as error:
        token = "the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "no token (set HF_TOKEN)"
        raise InputError(
            f"model {name} is gated and {token} gives no access: accept its licence at "
            f"https://huggingface.co/{name} with the account the token belongs to"
        ) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError, errors.EntryNotFoundError) as error:
        raise InputError(f"model {name} cannot be found, or the token in HF_TOKEN may not see it") from error
    except (OSError, errors.HfHubHTTPError) as error:
        if _refused(error):
            raise InputError(
                f"model {name}: the Hub does not know the token in HF_TOKEN; make one that reads at "
                "https://huggingface.co/settings/tokens"
            ) from error
        raise InputError(f"model {name} cannot be reached: {' '.join(str(error).split())[:300]}") from error


def _refused(error: Exception) -> bool:
    """Whether the Hub answered 401, which for a token it knows would be 403 or 404."""
    return getattr(getattr(error, "response", None), "status_code", None) == 401


def fetch_model(name: str, patterns: list[str] = MODEL_FILES) -> Path:
    """Download the model into the node's cache (HF_HOME), unless it is a directory; where its files lie."""
    if Path(name).is_absolute():
        return Path(name)
    import huggingface_hub

    return Path(huggingface_hub.snapshot_download(name, allow_patterns=patterns))


def load_model(model: Model, device: "torch.device", packed: bool = False) -> Any:
    """The frozen base model on `device`, from disk alone; `packed` if it will see only packs of rows."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    from finetune.attention import PACKED_ROWS

    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[model.precision]
    options: dict[str, Any] = {
        "dtype": dtype,
        "attn_implementation": PACKED_ROWS if packed else "sdpa",
        "local_files_only": True,
    }
    if model.quantization == "nf4":
        options["device_map"] = {"": device}
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    # Of a checkpoint that takes pictures this makes the whole model, for rows of text too: the adapter of
    # another class would have other names and not load on what is published.
    return AutoModelForCausalLM.from_pretrained(model.name, **options)


def load_processor(name: str, pictures: bool) -> Any:
    """What turns conversations into tokens; for text the tokenizer alone, as packing asks for."""
    from transformers import AutoProcessor, AutoTokenizer

    kind = AutoProcessor if pictures else AutoTokenizer
    return kind.from_pretrained(name, local_files_only=True)


def lora_config(lora: Lora, base: Any) -> "LoraConfig":
    """The adapter's shape; nothing of the base model is trained or stored with it.

    Raises InputError when there is no module of the base model for it.
    """
    from peft import LoraConfig

    from finetune.adapter import add_products

    names = [name for name, _ in base.named_modules()]
    if not any(re.fullmatch(lora.target_modules, name) for name in names):
        raise InputError(
            f"lora.target_modules {lora.target_modules} matches no module of {type(base).__name__}"
        )
    return add_products(
        LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=lora.target_modules,
            task_type="CAUSAL_LM",
        )
    )


def verify_adapter(model: "PeftModel", directory: Path) -> None:
    """Load a saved adapter beside the trained one and compare; raises RuntimeError when they differ."""
    from peft import get_peft_model_state_dict

    model.load_adapter(str(directory), adapter_name="saved")
    trained = get_peft_model_state_dict(model)
    saved = get_peft_model_state_dict(model, adapter_name="saved")
    model.delete_adapter("saved")
    compare_adapters(trained, saved, directory)


def compare_adapters(
    trained: "dict[str, torch.Tensor]", saved: "dict[str, torch.Tensor]", directory: Path
) -> None:
    """Raises RuntimeError unless both have the same weights, by name and to the last bit, and all finite."""
    import torch

    if trained.keys() != saved.keys():
        raise RuntimeError(f"the adapter in {directory} has other weights than the trained one")
    for name, weight in trained.items():
        if not torch.isfinite(weight).all() or not torch.equal(weight, saved[name].to(weight)):
            raise RuntimeError(
                f"the adapter in {directory} differs from the trained one, or is not finite, at {name}"
            )
