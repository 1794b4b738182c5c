"""Tiny models with the values of published ones: sizes are cut, what decides how a run ends is kept.

A family names its repository, https://huggingface.co/NAME. The values come from config.json,
generation_config.json, tokenizer_config.json and the names of the weights there. Where a family leaves a
value out, the class of transformers has the published one as its default.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiny_families import LINEAR, SMALL, templates, tokenizer_of

# For classes that compute the size of a head themselves.
PLAIN = {name: value for name, value in SMALL.items() if name != "head_dim"}
UNTIED = {"tie_word_embeddings": False}
WINDOW = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 32}


@dataclass(frozen=True, kw_only=True)
class Family:
    """A published model.

    Args:
        name: Its id on the Hub.
        template: Its chat template, by trl's name for it.
        kind: The class of its configuration.
        settings: Its values, with small sizes.
        extra: Tensors in its files that transformers does not load, by file.
        stops: Texts of the tokens at which generation_config.json stops. None if it has no such file.
        pads: Whether its tokenizer has a padding token.
    """

    name: str
    template: str
    kind: str
    settings: dict[str, Any]
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stops: tuple[str, ...] | None = ("end of a reply",)
    pads: bool = True


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="Qwen/Qwen3-0.6B",
            template="qwen3",
            kind="Qwen3Config",
            settings=SMALL,
            # Tied, and in the file all the same.
            extra={"model": ("lm_head.weight",)},
            stops=("<|im_end|>", "<|endoftext|>"),
        ),
        Family(
            name="Qwen/Qwen3-30B-A3B",
            template="qwen3",
            kind="Qwen3MoeConfig",
            settings=SMALL
            | UNTIED
            | {"num_experts": 8, "moe_intermediate_size": 16, "norm_topk_prob": True}
            | {"router_aux_loss_coef": 0.001},
        ),
        Family(
            name="Qwen/Qwen3-Next-80B-A3B-Instruct",
            template="qwen3_instruct_2507",
            kind="Qwen3NextConfig",
            settings=SMALL
            | LINEAR
            | UNTIED
            | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
            | {"shared_expert_intermediate_size": 16, "router_aux_loss_coef": 0.001},
            extra={"model": ("mtp.fc.weight", "mtp.layers.0.input_layernorm.weight")},
        ),
        Family(
            name="openai/gpt-oss-20b",
            template="gptoss",
            kind="GptOssConfig",
            settings=SMALL
            | WINDOW
            | UNTIED
            | {"num_local_experts": 4, "num_experts_per_tok": 4, "router_aux_loss_coef": 0.9},
            stops=("<|return|>", "<|endoftext|>", "<|call|>"),
        ),
        Family(
            name="mistralai/Mixtral-8x7B-Instruct-v0.1",
            template="llava_next",
            kind="MixtralConfig",
            settings=PLAIN | UNTIED | {"num_local_experts": 4, "router_aux_loss_coef": 0.02},
            stops=("</s>",),
            pads=False,
        ),
        Family(
            name="mistralai/Mistral-7B-Instruct-v0.3",
            template="llava_next",
            kind="MistralConfig",
            settings=PLAIN | UNTIED | {"sliding_window": None},
            extra={"consolidated": ("tok_embeddings.weight", "layers.0.attention.wq.weight")},
            stops=("</s>",),
            pads=False,
        ),
        Family(
            name="allenai/OLMoE-1B-7B-0924-Instruct",
            template="qwen2_5",
            kind="OlmoeConfig",
            settings=PLAIN | UNTIED | {"num_experts": 8, "router_aux_loss_coef": 0.01},
        ),
        Family(
            name="ibm-granite/granite-3.1-1b-a400m-instruct",
            template="qwen2_5",
            kind="GraniteMoeConfig",
            settings=PLAIN
            | {"num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.001},
        ),
        Family(
            name="ibm-granite/granite-4.0-micro",
            template="qwen2_5",
            kind="GraniteMoeHybridConfig",
            settings=PLAIN
            | {"num_hidden_layers": 2, "layer_types": ["attention", "attention"], "num_local_experts": 0}
            | {"num_experts_per_tok": 0, "shared_intermediate_size": 32, "router_aux_loss_coef": 0.01}
            | {"mamba_n_heads": 2},
        ),
        Family(
            name="zai-org/GLM-4.5-Air",
            template="glm4moe",
            kind="Glm4MoeConfig",
            settings=SMALL
            | UNTIED
            | {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
            | {"first_k_dense_replace": 1, "num_nextn_predict_layers": 1},
            extra={"model": ("model.layers.2.eh_proj.weight", "model.layers.2.enorm.weight")},
            stops=("<|endoftext|>", "<|user|>", "<|observation|>"),
        ),
        Family(
            name="deepseek-ai/DeepSeek-V3",
            template="deepseekv3",
            kind="DeepseekV3Config",
            settings=PLAIN
            | UNTIED
            | {"num_key_value_heads": 2, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8}
            | {"qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4, "n_group": 2, "topk_group": 1}
            | {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1},
            extra={"model": ("model.layers.2.eh_proj.weight", "model.layers.2.embed_tokens.weight")},
        ),
        Family(
            name="meta-llama/Llama-3.1-8B-Instruct",
            template="llama3_1",
            kind="LlamaConfig",
            settings=SMALL | UNTIED,
            extra={"original/consolidated": ("tok_embeddings.weight",)},
            stops=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
            pads=False,
        ),
        Family(
            name="meta-llama/Llama-4-Scout-17B-16E-Instruct (text)",
            template="llama3",
            kind="Llama4TextConfig",
            settings=SMALL
            | UNTIED
            | {"num_local_experts": 4, "intermediate_size_mlp": 64, "router_aux_loss_coef": 0.001},
        ),
        Family(
            name="Qwen/Qwen2.5-7B (base, with the template of the family)",
            template="qwen2_5",
            kind="Qwen2Config",
            settings=PLAIN | UNTIED,
            # generation_config.json of a base model ends texts, and its template ends turns.
            stops=("<|endoftext|>",),
        ),
        Family(
            name="a repository without generation_config.json",
            template="qwen2_5",
            kind="LlamaConfig",
            settings=SMALL,
            stops=None,
        ),
    )
}


def make_published(family: Family, path: Path) -> Path:
    """Write the model and its tokenizer as their repository has them. Returns `path`."""
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    from finetune.model.families import auto_class

    config = getattr(transformers, family.kind)(**family.settings)
    torch.manual_seed(5)
    model = auto_class(config).from_config(config)
    tokenizer = tokenizer_of(templates()[family.template])
    own = [token for token in family.stops or () if " " not in token]
    tokenizer.add_tokens([token for token in own if token not in tokenizer.get_vocab()], special_tokens=True)
    if not family.pads:
        tokenizer.pad_token = None
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(own) or [_end(tokenizer)]
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    if family.stops is None:
        (path / "generation_config.json").unlink()
    for file, names in family.extra.items():
        target = path / f"{file}.safetensors"
        target.parent.mkdir(exist_ok=True)
        weights = load_file(target) if target.exists() else {}
        # A second copy of a tied embedding has its size.
        embedding = weights.get("model.embed_tokens.weight", torch.ones(2, 2))
        more = {name: embedding.clone() for name in names}
        save_file(weights | more, target, metadata={"format": "pt"})
    return path


def _end(tokenizer: Any) -> int:
    from finetune.rows.stops import end_of_reply

    return end_of_reply(tokenizer)


def names_in(folder: Path) -> set[str]:
    """Names of the tensors in a model's own files."""
    from safetensors import safe_open

    names: set[str] = set()
    for file in folder.glob("model*.safetensors"):
        with safe_open(file, "pt") as tensors:
            names |= set(tensors.keys())
    return names


def changed(path: Path, file: str, **values: Any) -> None:
    """Set values in a JSON file of a model."""
    tree = json.loads((path / file).read_text()) if (path / file).exists() else {}
    (path / file).write_text(json.dumps(tree | values))
