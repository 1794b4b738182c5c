"""Makes tiny models of Gemma 4's architecture, with random weights and the published chat template."""

import copy
import re
from pathlib import Path
from typing import Any

_TEXT: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    # Shorter than most rows.
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    # There are two head sizes.
    "head_dim": 16,
    "global_head_dim": 32,
    "max_position_embeddings": 4096,
    "final_logit_softcapping": 2.0,
    # Large enough that a wrong attention shows in the loss.
    "initializer_range": 0.3,
    "tie_word_embeddings": True,
}
_PICTURES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    # Tokens of a picture. transformers does not read it, and vLLM does.
    "default_output_length": 280,
}
# Settings of the configuration, by the published model.
SETTINGS: dict[str, dict[str, Any]] = {
    "E2B": {
        # Two layers have keys and values, two share those.
        "text_config": _TEXT
        | {
            "num_key_value_heads": 1,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": 512,
        },
        "vision_config": _PICTURES,
        # The published model has this part, whose attention is its own.
        "audio_config": {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "subsampling_conv_channels": [8, 4],
            "output_proj_dims": 16,
        },
    },
    "31B": {
        # Layers that attend to all tokens have fewer keys, which are their values too.
        "text_config": _TEXT
        | {
            "num_key_value_heads": 2,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "use_bidirectional_attention": "vision",
        },
        "vision_config": _PICTURES,
        "audio_config": None,
    },
}


# Sizes of heads that vLLM has kernels for, also on a CPU. It dies of others at the first token.
OF_SERVERS: dict[str, Any] = {"hidden_size": 64, "head_dim": 32, "global_head_dim": 64}


def make_gemma_4(size: str, tokenizer: Any, path: Path, **text: Any) -> None:
    """Write the model and its tokenizer, which are enough for recipes without pictures.

    Args:
        size: A key of `SETTINGS`.
        tokenizer: The tokenizer, which gets the chat template.
        path: The new folder.
        text: Settings of the part for text over those of the size.
    """
    import torch
    import trl
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration

    template = Path(trl.__file__).parent / "chat_templates" / "gemma4.jinja"
    tokenizer = with_template(tokenizer, template.read_text())
    torch.manual_seed(5)
    settings = SETTINGS[size] | {"text_config": SETTINGS[size]["text_config"] | text}
    model = Gemma4ForConditionalGeneration(Gemma4Config(**settings))
    # As in the published generation_config.json: the model stops at the end of its turn.
    model.generation_config.eos_token_id = [tokenizer.convert_tokens_to_ids("<turn|>")]
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)


def add_processor(path: Path) -> None:
    """Write the processor of a model beside it, as published ones have. A server does not start without."""
    from transformers import (
        AutoTokenizer,
        Gemma4AudioFeatureExtractor,
        Gemma4ImageProcessorPil,
        Gemma4Processor,
        Gemma4VideoProcessor,
    )

    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    Gemma4Processor(
        feature_extractor=Gemma4AudioFeatureExtractor(),
        image_processor=Gemma4ImageProcessorPil(),
        tokenizer=tokenizer,
        video_processor=Gemma4VideoProcessor(),
        chat_template=tokenizer.chat_template,
    ).save_pretrained(path)


def with_template(tokenizer: Any, template: str) -> Any:
    """A copy of the tokenizer with a chat template and the special tokens in it."""
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = template
    # DeepSeek's special tokens have a wide vertical line and a low block.
    tokenizer.add_tokens(sorted(set(re.findall(r"<[|/\uff5c]?\w[\w\u2581]*[|\uff5c]?>", template))))
    return tokenizer
