"""What vLLM takes of published configurations, as vLLM 0.29 computes it from the same files."""

from typing import Any

import pytest

from components.finished_run.limits import (
    positions_of,
    problems_of_adapter,
    problems_of_model,
)

# The keys of published configurations that decide. Sources: config.json of the repositories on the Hub.
CONFIGURATIONS: dict[str, tuple[dict[str, Any], int | None]] = {
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": (
        {"max_position_embeddings": 2048, "num_attention_heads": 32, "num_key_value_heads": 4},
        2048,
    ),
    "meta-llama/Llama-2-7b-chat-hf": (
        {"max_position_embeddings": 4096, "num_attention_heads": 32, "num_key_value_heads": 32},
        4096,
    ),
    "microsoft/Phi-3-mini-4k-instruct": (
        {"max_position_embeddings": 4096, "num_attention_heads": 32, "rope_scaling": None},
        4096,
    ),
    "microsoft/Phi-3-mini-128k-instruct": (
        {
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]},
        },
        131072,
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": (
        {"max_position_embeddings": 32768, "num_attention_heads": 14, "num_key_value_heads": 2},
        32768,
    ),
    "meta-llama/Llama-3.1-8B-Instruct": (
        {
            "max_position_embeddings": 131072,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "original_max_position_embeddings": 8192,
            },
        },
        131072,
    ),
    "a Qwen 2.5 with YaRN": (
        {
            "max_position_embeddings": 32768,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        },
        131072,
    ),
    "deepseek-ai/deepseek-coder-6.7b-instruct": (
        {"max_position_embeddings": 16384, "rope_scaling": {"type": "linear", "factor": 4.0}},
        65536,
    ),
    "google/gemma-3-4b-it": ({"model_type": "gemma3", "text_config": {"hidden_size": 2560}}, None),
    "a Gemma 3 with all its values": (
        {
            "text_config": {
                "model_type": "gemma3_text",
                "max_position_embeddings": 131072,
                "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            }
        },
        131072,
    ),
    "the newer form by the kind of layer": (
        {
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.0},
                "sliding_attention": {"rope_type": "default"},
            },
        },
        8192,
    ),
    "openai-community/gpt2": ({"n_positions": 1024, "n_ctx": 1024, "n_head": 12}, 1024),
    "an own length beside the positions": (
        {"max_position_embeddings": 8192, "model_max_length": 131072},
        131072,
    ),
    "nothing said": ({}, None),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_positions_are_those_of_vllm(name: str) -> None:
    config, positions = CONFIGURATIONS[name]
    assert positions_of(config) == positions


def problem(config: dict[str, Any], gpus: int = 1, users_length: int = 0) -> str:
    return "; ".join(": ".join(part) for part in problems_of_model("the model", config, gpus, users_length))


@pytest.mark.parametrize(("users_length", "is_refused"), [(0, False), (4096, False), (4097, True)])
def test_a_users_length_above_the_positions_is_refused(users_length: int, is_refused: bool) -> None:
    config, _ = CONFIGURATIONS["microsoft/Phi-3-mini-4k-instruct"]
    text = problem(config, users_length=users_length)
    assert bool(text) == is_refused
    if is_refused:
        assert "has 4096 positions, and --max-model-len of its servers is 4097" in text
        assert "write --max-model-len=4096 or less into vllmArguments" in text


@pytest.mark.parametrize(
    ("heads", "of_keys", "gpus", "fitting"),
    [
        (32, 8, 8, None),
        (32, 4, 8, None),
        (14, 2, 2, None),
        (14, 2, 4, "1 or 2"),
        (9, 3, 2, "1"),
        (12, 3, 2, "1"),
        (0, 0, 8, None),
        (71, 71, 2, "1"),
    ],
)
def test_heads_that_the_gpus_do_not_divide_are_refused(
    heads: int, of_keys: int, gpus: int, fitting: str | None
) -> None:
    config = {"text_config": {"num_attention_heads": heads, "num_key_value_heads": of_keys}}
    text = problem(config, gpus=gpus)
    assert bool(text) == (fitting is not None)
    if fitting:
        assert f"has {heads} attention heads and {of_keys} of keys, which {gpus} GPUs do not divide" in text
        assert f"serve it on {fitting} GPUs" in text


@pytest.mark.parametrize(
    ("config", "rank", "wanted"),
    [
        ({"r": 16}, 16, ""),
        ({"r": 512, "bias": "none", "modules_to_save": None, "use_dora": False}, 512, ""),
        ({}, 1024, "rank 1024, and vLLM serves ranks up to 512"),
        ({"r": 513}, 16, "rank 513"),
        ({"r": 16, "rank_pattern": {"q_proj": 1024}}, 16, "rank 1024"),
        ({"r": 16, "modules_to_save": ["embed_tokens", "lm_head"]}, 16, "(embed_tokens, lm_head)"),
        ({"r": 16, "use_dora": True}, 16, "is a DoRA adapter"),
        ({"r": 16, "use_rslora": True, "target_parameters": ["mlp.experts.down_proj"]}, 16, ""),
        ({"r": 16, "bias": "all"}, 16, "has biases"),
    ],
)
def test_an_adapter_that_vllm_does_not_load_is_refused(
    config: dict[str, Any], rank: int, wanted: str
) -> None:
    text = "; ".join(": ".join(part) for part in problems_of_adapter("the adapter", config, rank))
    assert wanted in text and bool(text) == bool(wanted)
    if wanted:
        assert "finetune merge" in text and "training.result: model" in text
