"""Names of the layers of published models, so that an adapter without a layer is found without the model."""

import re
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from finetune.settings.lora import Lora

# More than any of these models has. A layer that a model does not have is found when the run starts.
_MOST_LAYERS = 128
_ATTENTION = [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")]
_MLP = [f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")]
# A picture's tower, by the names of SigLIP.
_TOWER = [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj")]
_TOWER += ["mlp.fc1", "mlp.fc2"]


def _numbered(parent: str, names: Iterable[str]) -> list[str]:
    return [f"{parent}.layers.{number}.{name}" for number, name in product(range(_MOST_LAYERS), names)]


TEXT = [*_numbered("model", [*_ATTENTION, *_MLP]), "model.embed_tokens", "lm_head"]
GEMMA_3_WITH_PICTURES = [
    *_numbered("model.language_model", [*_ATTENTION, *_MLP]),
    "model.language_model.embed_tokens",
    *_numbered("model.vision_tower.encoder", _TOWER),
    "model.vision_tower.embeddings.patch_embedding",
    "model.vision_tower.embeddings.position_embedding",
    *(f"model.vision_tower.head.{name}" for name in ("attention.out_proj", "mlp.fc1", "mlp.fc2")),
    "lm_head",
]
# By a regular expression over ids of the Hub.
FAMILIES = {
    r"google/gemma-3-(270m|1b)-(it|pt)": TEXT,
    r"google/gemma-3-(4b|12b|27b)-(it|pt)": GEMMA_3_WITH_PICTURES,
    r"meta-llama/(Meta-)?Llama-3(\.1|\.2|\.3)?-\d+B(-Instruct)?": TEXT,
    r"mistralai/Mistral-7B-(Instruct-)?v0\.\d": TEXT,
    r"Qwen/Qwen(2\.5|3)-\d+(\.\d+)?B(-Instruct|-Base)?": TEXT,
}


def adapter_problems(lora: "Lora", model: str) -> Iterable[str]:
    """Why the adapter would have no layer of the model of that name, if that is certain without the model."""
    if lora.target_parameters and lora.dropout:
        yield "lora.target_parameters needs lora.dropout 0"
    if lora.target_parameters and lora.use_dora:
        yield "lora.use_dora is for layers, and lora.target_parameters names parameters: leave one out"
    wanted = lora.target_modules
    if wanted is None:
        return
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        yield f"lora.target_modules {wanted} is no regular expression: {error}"
        return
    layers = next((layers for family, layers in FAMILIES.items() if re.fullmatch(family, model)), None)
    if layers and not any(map(pattern.fullmatch, layers)):
        yield f"lora.target_modules {wanted} matches no layer of {model}, which has for example {layers[0]}"
