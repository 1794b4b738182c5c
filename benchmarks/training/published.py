"""The sizes of the published models, for a machine that cannot ask the Hub."""

from typing import Any, Final

from transformers import Gemma3Config, Gemma3TextConfig

# The sizes of Google's models: https://github.com/huggingface/transformers at c1a83acd,
# src/transformers/models/gemma3/convert_gemma3_weights.py, which wrote their config.json.
_SHARED: Final[dict[str, Any]] = {"head_dim": 256, "query_pre_attn_scalar": 256}
_TEXT: Final[dict[str, dict[str, Any]]] = {
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
_VISION: Final[dict[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 896,
    "patch_size": 14,
}
_PICTURE_TOKENS: Final = 256


def is_published(model: str) -> bool:
    """Whether the model's sizes are known here."""
    return model in _TEXT


def config_of(model: str) -> Any:
    """The configuration of a published model."""
    text = {**_TEXT[model], **_SHARED}
    if text["vocab_size"] == 262_144:  # this model takes no pictures
        return Gemma3TextConfig(**text)
    return Gemma3Config(text_config=text, vision_config=_VISION, mm_tokens_per_image=_PICTURE_TOKENS)
