"""Values of published models that decide how a run ends, with small sizes.

A model names its repository, https://huggingface.co/NAME. No test can ask the Hub, so nobody has compared a
value with a file there on the day of the tests. They come from the published config.json,
generation_config.json, tokenizer_config.json and the names of the weights as the authors of the tests know
them. Where a model leaves a value out, the class of transformers has it as its default.
"""

from dataclasses import dataclass, field
from typing import Any

from tiny_families import FAMILIES as TINY
from tiny_families import LINEAR, SMALL

# For classes that compute the size of a head themselves.
PLAIN = {name: value for name, value in SMALL.items() if name != "head_dim"}
UNTIED = {"tie_word_embeddings": False}
WINDOW = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 32}
END = ("end of a reply",)
# Why rows do not share a pack, as a reader of docs/training/own-model.md sees it.
SINKS, CAPS, STATES, CHUNKS = "attention sinks", "capped scores", "layers with a state", "attention in chunks"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A published model.

    Args:
        title: The family's name on the page about models.
        name: Its id on the Hub.
        template: Its chat template, by trl's name for it or for one of the same form.
        kind: The class of its configuration.
        settings: Its values, with small sizes.
        alone: Why its rows share no pack. None if they do.
        refused: Why it is not trained at all.
        extra: Tensors in its files that transformers does not load, by file.
        stops: Texts of the tokens at which generation_config.json stops. None if it has no such file.
        pads: Whether its tokenizer has a padding token.
    """

    title: str
    name: str
    template: str
    kind: str
    settings: dict[str, Any]
    alone: str | None = None
    refused: str | None = None
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stops: tuple[str, ...] | None = END
    pads: bool = True


# Experts of a mixture, each chosen among few.
MIXTURES = (
    Family(
        title="Qwen 3 MoE",
        name="Qwen/Qwen3-30B-A3B",
        template="qwen3",
        kind="Qwen3MoeConfig",
        settings=SMALL
        | UNTIED
        | {"num_experts": 8, "moe_intermediate_size": 16, "norm_topk_prob": True}
        | {"router_aux_loss_coef": 0.001},
    ),
    Family(
        title="Qwen3-Next",
        name="Qwen/Qwen3-Next-80B-A3B-Instruct",
        template="qwen3_instruct_2507",
        kind="Qwen3NextConfig",
        settings=SMALL
        | LINEAR
        | UNTIED
        | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
        | {"shared_expert_intermediate_size": 16, "router_aux_loss_coef": 0.001},
        alone=STATES,
        extra={"model": ("mtp.fc.weight", "mtp.layers.0.input_layernorm.weight")},
    ),
    Family(
        title="Qwen 3.5 MoE",
        name="Qwen/Qwen3.5-35B-A3B",
        template="qwen3_5_nothink",
        kind="Qwen3_5MoeConfig",
        settings={
            "text_config": TINY["Qwen 3.5"][2]["text_config"]
            | UNTIED
            | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
            | {"shared_expert_intermediate_size": 16, "router_aux_loss_coef": 0.001},
            "vision_config": TINY["Qwen 3.5"][2]["vision_config"],
            **UNTIED,
        },
        alone=STATES,
        extra={"model": ("mtp.fc.weight",)},
    ),
    Family(
        title="gpt-oss",
        name="openai/gpt-oss-20b",
        template="gptoss",
        kind="GptOssConfig",
        settings=SMALL
        | WINDOW
        | UNTIED
        | {"num_local_experts": 4, "num_experts_per_tok": 4, "router_aux_loss_coef": 0.9},
        alone=SINKS,
        stops=("<|return|>", "<|endoftext|>", "<|call|>"),
    ),
    Family(
        title="Mixtral",
        name="mistralai/Mixtral-8x7B-Instruct-v0.1",
        template="llava_next",
        kind="MixtralConfig",
        settings=PLAIN | UNTIED | {"num_local_experts": 4, "router_aux_loss_coef": 0.02},
        stops=("</s>",),
        pads=False,
    ),
    Family(
        title="OLMoE",
        name="allenai/OLMoE-1B-7B-0924-Instruct",
        template="qwen2_5",
        kind="OlmoeConfig",
        settings=PLAIN | UNTIED | {"num_experts": 8, "router_aux_loss_coef": 0.01},
    ),
    Family(
        title="Granite 3 MoE",
        name="ibm-granite/granite-3.1-1b-a400m-instruct",
        template="qwen2_5",
        kind="GraniteMoeConfig",
        settings=PLAIN | {"num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.001},
    ),
    Family(
        title="Granite 4 hybrid",
        name="ibm-granite/granite-4.0-h-tiny",
        template="qwen2_5",
        kind="GraniteMoeHybridConfig",
        settings=PLAIN
        | {"layer_types": ["mamba", "attention"], "num_local_experts": 4, "num_experts_per_tok": 2}
        | {"shared_intermediate_size": 32, "router_aux_loss_coef": 0.01, "position_embedding_type": "nope"}
        | {"mamba_n_heads": 2, "mamba_d_head": 32, "mamba_d_state": 16, "mamba_n_groups": 1},
        alone=STATES,
    ),
    Family(
        title="GLM 4.5",
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
        title="DeepSeek V3",
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
        title="MiniMax M2",
        name="MiniMaxAI/MiniMax-M2",
        template="qwen2_5",
        kind="MiniMaxM2Config",
        settings=SMALL
        | UNTIED
        | {"num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.001},
    ),
    Family(
        title="Llama 4",
        name="meta-llama/Llama-4-Scout-17B-16E-Instruct (text)",
        template="llama3",
        kind="Llama4TextConfig",
        settings=SMALL
        | UNTIED
        | {"num_local_experts": 4, "intermediate_size_mlp": 64, "router_aux_loss_coef": 0.001},
        alone=CHUNKS,
    ),
)
# Models that share their weights among all tokens.
DENSE = (
    Family(
        title="Qwen 3",
        name="Qwen/Qwen3-0.6B",
        template="qwen3",
        kind="Qwen3Config",
        settings=SMALL,
        # Tied, and in the file all the same.
        extra={"model": ("lm_head.weight",)},
        stops=("<|im_end|>", "<|endoftext|>"),
    ),
    Family(
        title="Qwen 2.5",
        name="Qwen/Qwen2.5-7B (base, with the template of the family)",
        template="qwen2_5",
        kind="Qwen2Config",
        settings=PLAIN | UNTIED,
        # generation_config.json of a base model ends texts, and its template ends turns.
        stops=("<|endoftext|>",),
    ),
    Family(
        title="Llama 3",
        name="meta-llama/Llama-3.1-8B-Instruct",
        template="llama3_1",
        kind="LlamaConfig",
        settings=SMALL | UNTIED,
        extra={"original/consolidated": ("tok_embeddings.weight",)},
        stops=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        pads=False,
    ),
    Family(
        title="Llama 3",
        name="meta-llama/Llama-3.2-3B-Instruct",
        template="llama3_2",
        kind="LlamaConfig",
        settings=SMALL,
        extra={"original/consolidated": ("tok_embeddings.weight",)},
        stops=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        pads=False,
    ),
    Family(
        title="Llama 3",
        name="a repository without generation_config.json",
        template="qwen2_5",
        kind="LlamaConfig",
        settings=SMALL,
        stops=None,
    ),
    Family(
        title="Mistral",
        name="mistralai/Mistral-7B-Instruct-v0.3",
        template="llava_next",
        kind="MistralConfig",
        settings=PLAIN | UNTIED | {"sliding_window": None},
        extra={"consolidated": ("tok_embeddings.weight", "layers.0.attention.wq.weight")},
        stops=("</s>",),
        pads=False,
    ),
    Family(
        title="Gemma 2",
        name="google/gemma-2-9b-it",
        template="gemma",
        kind="Gemma2Config",
        settings=SMALL | WINDOW | {"query_pre_attn_scalar": 16, "attn_logit_softcapping": 50.0},
        alone=CAPS,
        stops=("<eos>",),
    ),
    Family(
        title="Gemma 3",
        name="google/gemma-3-1b-it",
        template="gemma3",
        kind="Gemma3TextConfig",
        settings=SMALL | WINDOW | {"query_pre_attn_scalar": 16},
        stops=("<eos>", "<end_of_turn>"),
    ),
    Family(
        title="Gemma 4",
        name="google/gemma-4-E2B-it",
        template="gemma4",
        kind="Gemma4Config",
        settings=TINY["Gemma 4"][2],
        stops=("<eos>", "<turn|>"),
    ),
    Family(
        title="Phi 3 and 4",
        name="microsoft/phi-4",
        template="phi3",
        kind="Phi3Config",
        settings=PLAIN | UNTIED | {"pad_token_id": 0},
        stops=("<|endoftext|>",),
    ),
    Family(
        title="SmolLM 3",
        name="HuggingFaceTB/SmolLM3-3B",
        template="qwen2_5",
        kind="SmolLM3Config",
        settings=PLAIN | {"no_rope_layers": [1, 0], "pad_token_id": None},
    ),
    Family(
        title="OLMo 3",
        name="allenai/Olmo-3-7B-Instruct",
        template="qwen2_5",
        kind="Olmo3Config",
        settings=PLAIN | UNTIED | WINDOW,
    ),
    Family(
        title="Cohere 2",
        name="CohereLabs/c4ai-command-r7b-12-2024",
        template="cohere",
        kind="Cohere2Config",
        settings=SMALL | WINDOW | {"logit_scale": 0.25, "use_qk_norm": False},
    ),
    Family(
        title="Granite 4",
        name="ibm-granite/granite-4.0-micro",
        template="qwen2_5",
        kind="GraniteMoeHybridConfig",
        settings=PLAIN
        | {"num_hidden_layers": 2, "layer_types": ["attention", "attention"], "num_local_experts": 0}
        | {"num_experts_per_tok": 0, "shared_intermediate_size": 32, "router_aux_loss_coef": 0.01}
        | {"mamba_n_heads": 2},
    ),
    Family(
        title="GLM 4",
        name="zai-org/GLM-4-9B-0414",
        template="glm4moe",
        kind="Glm4Config",
        settings=SMALL | UNTIED | {"partial_rotary_factor": 0.5, "pad_token_id": None},
        stops=("<|endoftext|>", "<|user|>", "<|observation|>"),
    ),
    Family(
        title="EXAONE 4",
        name="LGAI-EXAONE/EXAONE-4.0-1.2B",
        template="qwen2_5",
        kind="Exaone4Config",
        settings=SMALL | WINDOW,
    ),
    Family(
        title="ERNIE 4.5",
        name="baidu/ERNIE-4.5-0.3B-PT",
        template="qwen2_5",
        kind="Ernie4_5Config",
        settings=SMALL,
        stops=("</s>",),
    ),
    Family(
        title="Seed-OSS",
        name="ByteDance-Seed/Seed-OSS-36B-Instruct",
        template="qwen2_5",
        kind="SeedOssConfig",
        settings=SMALL | UNTIED | {"attention_bias": True, "attention_out_bias": False},
    ),
    Family(
        title="Apertus",
        name="swiss-ai/Apertus-8B-Instruct-2509",
        template="qwen2_5",
        kind="ApertusConfig",
        settings=PLAIN | UNTIED,
    ),
)
