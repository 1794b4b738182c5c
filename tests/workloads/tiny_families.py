"""Tiny models of families that people fine-tune, with random weights and the chat templates of their own."""

from functools import cache
from pathlib import Path
from typing import Any

from rehearsal.running_pods.tiny import make_tokenizer
from rehearsal.running_pods.tiny_gemma_4 import SETTINGS, with_template

SMALL: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    # Large enough that a wrong attention shows in the loss.
    "initializer_range": 0.3,
    "tie_word_embeddings": True,
}
# Shorter than most rows.
WINDOW = {"sliding_window": 32, "layer_types": ["sliding_attention", "full_attention"]}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
EXPERTS = {"num_experts_per_tok": 1, "router_aux_loss_coef": 0.0}
TOWER = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "patch_size": 14,
    "spatial_merge_size": 1,
    "temporal_patch_size": 1,
    "out_hidden_size": 32,
    "num_position_embeddings": 64,
}
QWEN_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
SMOLVLM_TOKENS = {
    "image_token": "<image>",
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}
# By family that is trained with pictures.
END_OF_TURN = {"Qwen3-VL": "<|im_end|>", "Qwen 3.5": "<|im_end|>", "SmolVLM": "<end_of_utterance>"}
# By family: the template's name in trl, and the class and the settings of the configuration.
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("llama3", "LlamaConfig", SMALL),
    "Qwen 3": ("qwen3", "Qwen3Config", SMALL),
    "Qwen3-VL": (
        "qwen3_vl",
        "Qwen3VLConfig",
        {
            "text_config": SMALL
            | {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e4,
                    "mrope_section": [4, 2, 2],
                }
            },
            "vision_config": TOWER | {"deepstack_visual_indexes": [0]},
        },
    ),
    "gpt-oss": ("gptoss", "GptOssConfig", SMALL | WINDOW | EXPERTS | {"num_local_experts": 2}),
    "Gemma 2": (
        "gemma",
        "Gemma2Config",
        SMALL | WINDOW | {"query_pre_attn_scalar": 16, "attn_logit_softcapping": 2.0},
    ),
    "Gemma 4": ("gemma4", "Gemma4Config", SETTINGS["E2B"]),
    "Gemma 4 31B": ("gemma4", "Gemma4Config", SETTINGS["31B"]),
    "Qwen 3.5": (
        "qwen3_5_nothink",
        "Qwen3_5Config",
        {
            "text_config": SMALL
            | LINEAR
            | {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e4,
                    "mrope_section": [1, 1, 0],
                    "partial_rotary_factor": 0.25,
                }
            },
            "vision_config": TOWER,
        },
    ),
    # The first SmolVLM has this class. The second has one of its own, whose processor needs another package.
    "SmolVLM": (
        "smolvlm",
        "Idefics3Config",
        {
            "text_config": {"model_type": "llama", **SMALL},
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 7,
            },
            "scale_factor": 2,
        },
    ),
    "LFM2": (
        "lfm2",
        "Lfm2Config",
        {name: value for name, value in SMALL.items() if name != "head_dim"}
        | {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8},
    ),
    "Qwen3-Next": (
        "qwen3_instruct_2507",
        "Qwen3NextConfig",
        SMALL
        | LINEAR
        | EXPERTS
        | {
            "num_experts": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "decoder_sparse_step": 1,
        },
    ),
}


def make_family(family: str, path: Path) -> None:
    """Write the model and its tokenizer."""
    import torch
    import transformers

    from conversations.chat_template import ChatTemplate
    from finetune.model.families import auto_class

    template, kind, settings = FAMILIES[family]
    config = getattr(transformers, kind)(**settings)
    torch.manual_seed(5)
    model = auto_class(config).from_config(config)
    for name, weight in model.named_parameters():
        if name.endswith("sinks"):
            # Sinks begin at zero, and those of a trained model take a good part of the attention.
            torch.nn.init.constant_(weight, 4.0)
    tokenizer = tokenizer_of(templates()[template])
    row = ChatTemplate(tokenizer).row([{"role": role, "content": "a"} for role in ("user", "assistant")])
    # As in a published generation_config.json: the model stops at the end of its turn.
    model.generation_config.eos_token_id = [row.tokens[max(at for at, end in enumerate(row.trained) if end)]]
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)


def make_family_with_pictures(family: str, path: Path) -> None:
    """Write a model with its processor of pictures. A picture takes four tokens or more."""
    import torch
    import transformers

    template, kind, settings = FAMILIES[family]
    is_smolvlm = family == "SmolVLM"
    tokenizer = _tokenizer_with_pictures(template, SMOLVLM_TOKENS if is_smolvlm else QWEN_TOKENS)
    ids = {"image_token_id": tokenizer.image_token_id}
    if not is_smolvlm:
        ids = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in QWEN_TOKENS.items()}
    torch.manual_seed(5)
    model = transformers.AutoModelForImageTextToText.from_config(
        getattr(transformers, kind)(**settings, **ids)
    )
    model.generation_config.eos_token_id = [tokenizer.convert_tokens_to_ids(END_OF_TURN[family])]
    model.save_pretrained(path)
    processor = _smolvlm_processor(tokenizer) if is_smolvlm else _qwen_processor(tokenizer)
    processor.chat_template = templates()[template]
    processor.save_pretrained(path)


def _tokenizer_with_pictures(template: str, tokens: dict[str, str]) -> Any:
    from transformers import PreTrainedTokenizerFast

    inner = tokenizer_of(templates()[template])
    inner.add_tokens(list(tokens.values()), special_tokens=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner._tokenizer, eos_token="<eos>", pad_token="<pad>", extra_special_tokens=tokens
    )


def _qwen_processor(tokenizer: Any) -> Any:
    import transformers

    patches: dict[str, Any] = {"patch_size": 14, "merge_size": 1, "temporal_patch_size": 1}
    return transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(**patches, min_pixels=28 * 28, max_pixels=56 * 56),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen3VLVideoProcessor(**patches),
    )


def _smolvlm_processor(tokenizer: Any) -> Any:
    """A processor that splits a picture into parts, as the published one does."""
    import transformers

    pictures = transformers.Idefics3ImageProcessor(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    return transformers.Idefics3Processor(image_processor=pictures, tokenizer=tokenizer, image_seq_len=4)


@cache
def templates() -> dict[str, str]:
    """The published templates that trl knows, by its name for them."""
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    files = [file for file in sorted(folder.glob("*.jinja")) if not file.stem.endswith("_training")]
    return {file.stem: file.read_text() for file in files}


def tokenizer_of(template: str) -> Any:
    """The tiny tokenizer with a template and its special tokens."""
    return with_template(_tokenizer(), template)


@cache
def _tokenizer() -> Any:
    return make_tokenizer()
