"""More families, which the trial of a recipe passes too (2026-11-28). Values as in published_families."""

from published_families import PLAIN, STATES, UNTIED, Family
from tiny_families import SMALL

# Experts of a few tokens each, of which one layer has none.
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "head_dim": 8}
NO_BOUNDS = "attention without the bounds of rows"

MORE = (
    Family(
        title="Arcee AFM",
        name="arcee-ai/AFM-4.5B",
        template="qwen2_5",
        kind="ArceeConfig",
        settings=SMALL | UNTIED | {"hidden_act": "relu2"},
    ),
    Family(
        title="Aya and Command R",
        name="CohereLabs/aya-expanse-8b",
        template="cohere",
        kind="CohereConfig",
        settings=PLAIN | {"logit_scale": 0.125, "use_qk_norm": False},
    ),
    Family(
        title="Bamba",
        name="ibm-ai-platform/Bamba-9B-v2",
        template="qwen2_5",
        kind="BambaConfig",
        settings=PLAIN
        | UNTIED
        | {"attn_layer_indices": [1], "mamba_n_heads": 2, "mamba_d_state": 16, "mamba_n_groups": 1},
        alone=STATES,
    ),
    Family(
        title="DeepSeek V2",
        name="deepseek-ai/DeepSeek-V2-Lite-Chat",
        template="qwen2_5",
        kind="DeepseekV2Config",
        settings=PLAIN
        | UNTIED
        | EXPERTS
        | LATENT
        | {"num_key_value_heads": 2, "q_lora_rank": None, "topk_method": "greedy"}
        | {"first_k_dense_replace": 1, "n_shared_experts": 1},
    ),
    Family(
        title="dots.llm1",
        name="rednote-hilab/dots.llm1.inst",
        template="qwen2_5",
        kind="Dots1Config",
        settings=SMALL
        | UNTIED
        | EXPERTS
        | {"first_k_dense_replace": 1, "n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    ),
    Family(
        title="ERNIE 4.5 MoE",
        name="baidu/ERNIE-4.5-21B-A3B-PT",
        template="qwen2_5",
        kind="Ernie4_5_MoeConfig",
        settings=SMALL
        | {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16, "moe_layer_start_index": 1}
        | {"moe_num_shared_experts": 1, "router_aux_loss_coef": 0.001},
    ),
    Family(
        title="Gemma 1",
        name="google/gemma-1.1-2b-it",
        template="gemma",
        kind="GemmaConfig",
        settings=SMALL | {"hidden_activation": "gelu_pytorch_tanh"},
    ),
    Family(
        title="GLM 4 of 2024",
        name="zai-org/glm-4-9b-chat-hf",
        template="glm4moe",
        kind="GlmConfig",
        settings=SMALL | UNTIED | {"partial_rotary_factor": 0.5, "attention_bias": True, "pad_token_id": 0},
    ),
    Family(
        title="Granite 3",
        name="ibm-granite/granite-3.3-2b-instruct",
        template="qwen2_5",
        kind="GraniteConfig",
        settings=PLAIN
        | {"embedding_multiplier": 12.0, "attention_multiplier": 0.015625}
        | {"residual_multiplier": 0.22, "logits_scaling": 8.0},
    ),
    Family(
        title="Hunyuan",
        name="tencent/Hunyuan-7B-Instruct",
        template="qwen2_5",
        kind="HunYuanDenseV1Config",
        settings=SMALL,
    ),
    Family(
        title="Jamba",
        name="ai21labs/AI21-Jamba-Mini-1.6",
        template="qwen2_5",
        kind="JambaConfig",
        settings=PLAIN
        | UNTIED
        | {"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2}
        | {"expert_layer_offset": 1, "mamba_dt_rank": 4, "mamba_d_state": 8, "use_mamba_kernels": False},
        alone=STATES,
    ),
    Family(
        title="LFM 2 MoE",
        name="LiquidAI/LFM2-8B-A1B",
        template="lfm2",
        kind="Lfm2MoeConfig",
        settings=PLAIN
        | {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1, "num_experts": 4}
        | {"num_experts_per_tok": 2, "moe_intermediate_size": 16},
        alone=STATES,
        stops=("<|im_end|>",),
    ),
    Family(
        title="Pythia",
        name="EleutherAI/pythia-1.4b-deduped (base, with the template of another family)",
        template="qwen2_5",
        kind="GPTNeoXConfig",
        settings=PLAIN | UNTIED | {"rotary_pct": 0.25, "use_parallel_residual": True},
        pads=False,
    ),
    Family(
        title="Qwen 1.5 MoE",
        name="Qwen/Qwen1.5-MoE-A2.7B-Chat",
        template="qwen2_5",
        kind="Qwen2MoeConfig",
        settings=PLAIN
        | UNTIED
        | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
        | {"shared_expert_intermediate_size": 16, "router_aux_loss_coef": 0.001},
    ),
    Family(
        title="StableLM 2",
        name="stabilityai/stablelm-2-1_6b-chat",
        template="qwen2_5",
        kind="StableLmConfig",
        settings=PLAIN | UNTIED | {"partial_rotary_factor": 0.25, "use_qkv_bias": True},
        alone=NO_BOUNDS,
    ),
    Family(
        title="StarCoder 2",
        name="bigcode/starcoder2-15b-instruct-v0.1",
        template="qwen2_5",
        kind="Starcoder2Config",
        settings=PLAIN | UNTIED | {"use_bias": True, "sliding_window": 32, "norm_epsilon": 1e-5},
        pads=False,
    ),
    Family(
        title="Ettin (ModernBERT decoder)",
        name="jhu-clsp/ettin-decoder-1b",
        template="qwen2_5",
        kind="ModernBertDecoderConfig",
        settings=PLAIN | {"pad_token_id": 0, "layer_types": ["full_attention", "sliding_attention"]},
    ),
)
