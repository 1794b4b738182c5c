"""The same for models with other parts than attention over text, and for those that are not trained."""

from published_families import CAPS, PLAIN, STATES, UNTIED, WINDOW, Family
from tiny_families import FAMILIES as TINY
from tiny_families import SMALL, TOWER

SEES_ALL = "a token sees those behind it"

# A tower of the kinds of SigLIP and Pixtral.
SMALL_TOWER = {
    **{key: TOWER[key] for key in ("hidden_size", "intermediate_size", "patch_size")},
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
}
PALIGEMMA = {"vision_config": SMALL_TOWER, "hidden_size": 32, "projection_dim": 32}

HYBRIDS = (
    Family(
        title="Qwen 3.5",
        name="Qwen/Qwen3.5-9B",
        template="qwen3_5_nothink",
        kind="Qwen3_5Config",
        settings=TINY["Qwen 3.5"][2],
        alone=STATES,
        extra={"model": ("mtp.fc.weight",)},
    ),
    Family(
        title="Falcon-H1",
        name="tiiuae/Falcon-H1-1.5B-Instruct",
        template="qwen2_5",
        kind="FalconH1Config",
        settings=SMALL
        | {"mamba_d_ssm": 64, "mamba_n_heads": 2, "mamba_d_head": 32, "mamba_d_state": 16}
        | {"mamba_n_groups": 1, "projectors_bias": False},
        alone=STATES,
    ),
    Family(
        title="LFM 2",
        name="LiquidAI/LFM2-1.2B",
        template="lfm2",
        kind="Lfm2Config",
        settings=PLAIN | {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8},
        alone=STATES,
        stops=("<|im_end|>",),
    ),
    Family(
        title="Nemotron-H and Nemotron 3",
        name="nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        template="qwen2_5",
        kind="NemotronHConfig",
        settings=SMALL
        | UNTIED
        | {"layers_block_type": ["mamba", "attention", "mlp"], "mamba_num_heads": 2, "mamba_head_dim": 32}
        | {"ssm_state_size": 16, "n_groups": 1},
        alone=STATES,
    ),
    Family(
        title="Nemotron 4 and Minitron",
        name="nvidia/Nemotron-Mini-4B-Instruct",
        template="qwen2_5",
        kind="NemotronConfig",
        settings=SMALL | UNTIED | {"partial_rotary_factor": 0.5},
        alone="attention without the bounds of rows",
    ),
    Family(
        title="Doge",
        name="SmallDoge/Doge-160M-Instruct",
        template="qwen2_5",
        kind="DogeConfig",
        settings=PLAIN | {"keep_window_size": 8},
        alone="a mask of its own",
    ),
)
PICTURES = (
    Family(
        title="Qwen3-VL",
        name="Qwen/Qwen3-VL-8B-Instruct",
        template="qwen3_vl",
        kind="Qwen3VLConfig",
        # Its text part says nothing of tied weights.
        settings=TINY["Qwen3-VL"][2]
        | UNTIED
        | {
            "text_config": {
                name: value
                for name, value in TINY["Qwen3-VL"][2]["text_config"].items()
                if name != "tie_word_embeddings"
            }
        },
    ),
    Family(
        title="Mistral Small 3.1",
        name="mistralai/Mistral-Small-3.1-24B-Instruct-2503",
        template="llava_next",
        kind="Mistral3Config",
        settings={
            "text_config": {"model_type": "mistral", **SMALL, **UNTIED, "sliding_window": None},
            "vision_config": {"model_type": "pixtral", **SMALL_TOWER},
            **UNTIED,
        },
        extra={"consolidated": ("tok_embeddings.weight",)},
        stops=("</s>",),
        pads=False,
    ),
    Family(
        title="SmolVLM",
        name="HuggingFaceTB/SmolVLM-Instruct",
        template="smolvlm",
        kind="Idefics3Config",
        settings=TINY["SmolVLM"][2],
    ),
    Family(
        title="PaliGemma 2",
        name="google/paligemma2-3b-mix-224",
        template="gemma",
        kind="PaliGemmaConfig",
        settings=PALIGEMMA
        | {"text_config": {"model_type": "gemma2", **SMALL, **WINDOW, "attn_logit_softcapping": 50.0}},
        alone=CAPS,
    ),
)
REFUSED = (
    Family(
        title="PaliGemma",
        name="google/paligemma-3b-mix-224",
        template="gemma",
        kind="PaliGemmaConfig",
        settings=PALIGEMMA | {"text_config": {"model_type": "gemma", **SMALL}},
        refused=SEES_ALL,
    ),
    Family(
        title="BERT, RoBERTa, ELECTRA",
        name="google-bert/bert-base-uncased",
        template="qwen2_5",
        kind="BertConfig",
        settings={name: value for name, value in PLAIN.items() if name != "num_key_value_heads"},
        refused=SEES_ALL,
    ),
)
