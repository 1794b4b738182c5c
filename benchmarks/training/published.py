"""The sizes of the published models, for a machine that cannot ask the Hub."""

from typing import Any, Final

from transformers import Gemma2Config, Gemma3Config, Gemma3TextConfig, Gemma4Config

# The sizes of Google's models: https://github.com/huggingface/transformers at c1a83acd,
# src/transformers/models/gemma3/convert_gemma3_weights.py, which wrote their config.json.
_SHARED: Final[dict[str, Any]] = {"head_dim": 256, "query_pre_attn_scalar": 256}
_GEMMA_3: Final[dict[str, dict[str, Any]]] = {
    "google/gemma-3-1b-it": {
        "vocab_size": 262_144,
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "num_hidden_layers": 26,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "sliding_window": 512,
    },
    "google/gemma-3-4b-it": {
        "vocab_size": 262_208,
        "hidden_size": 2560,
        "intermediate_size": 10_240,
        "num_hidden_layers": 34,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "sliding_window": 1024,
    },
    "google/gemma-3-12b-it": {
        "vocab_size": 262_208,
        "hidden_size": 3840,
        "intermediate_size": 15_360,
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "sliding_window": 1024,
    },
}
# The base model of tutorial 003 has the same sizes.
_GEMMA_3["google/gemma-3-12b-pt"] = _GEMMA_3["google/gemma-3-12b-it"]
# Its sizes are the defaults of its class in transformers.
_GEMMA_2: Final = "google/gemma-2-2b"
_VISION: Final[dict[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 896,
    "patch_size": 14,
}
_PICTURE_TOKENS: Final = 256

# Gemma 4 as MaxText 0.2.5 has it to convert checkpoints: configs/models/gemma4-*.yml and
# checkpoint_conversion/utils/hf_model_configs.py of https://github.com/AI-Hypercomputer/maxtext. The part for
# sound, which MaxText leaves out, has transformers' defaults (assumption gemma-4-sizes).
_SLIDING: Final = "sliding_attention"
_GEMMA_4: Final[dict[str, dict[str, Any]]] = {
    "google/gemma-4-E2B-it": {
        "text_config": {
            "hidden_size": 1536,
            "intermediate_size": 6144,
            "num_hidden_layers": 35,
            "layer_types": [*[_SLIDING] * 4, "full_attention"] * 7,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "num_kv_shared_layers": 20,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 256,
            "sliding_window": 512,
            "final_logit_softcapping": 30.0,
        },
        "vision_config": {"use_clipped_linears": True},
        "audio_config": {},
    },
    "google/gemma-4-31B-it": {
        "text_config": {
            "hidden_size": 5376,
            "intermediate_size": 21_504,
            "num_hidden_layers": 60,
            "layer_types": [*[_SLIDING] * 5, "full_attention"] * 10,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "num_global_key_value_heads": 4,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "sliding_window": 1024,
            "final_logit_softcapping": 30.0,
            "use_bidirectional_attention": "vision",
        },
        "vision_config": {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "head_dim": 72,
            "standardize": True,
        },
    },
}


def is_published(model: str) -> bool:
    """Whether the model's sizes are known here."""
    return model in _GEMMA_3 or model in _GEMMA_4 or model == _GEMMA_2


def config_of(model: str) -> Any:
    """The configuration of a published model."""
    if model == _GEMMA_2:
        return Gemma2Config()
    if model in _GEMMA_4:
        return Gemma4Config(**_GEMMA_4[model])
    text = {**_GEMMA_3[model], **_SHARED}
    if text["vocab_size"] == 262_144:  # this model takes no pictures
        return Gemma3TextConfig(**text)
    return Gemma3Config(text_config=text, vision_config=_VISION, mm_tokens_per_image=_PICTURE_TOKENS)
