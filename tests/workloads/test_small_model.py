"""A trial's small model has every kind of layer of the published one, and works."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_families import templates, tokenizer_of

from finetune.model import shrink
from finetune.model.families import auto_class
from finetune.settings.recipe import Recipe
from trial.small_model import NoTrial, make_small_model
from trial.small_recipe import make_small_recipe

PERIODS_OF_MAMBA = (["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4


@dataclass(frozen=True, kw_only=True)
class Wide:
    """A configuration at its published widths, with a small vocabulary.

    Args:
        kind: Its class, whose defaults are published values.
        settings: Other published values.
        keeps: Values of the small model's text configuration.
    """

    kind: str
    settings: dict[str, Any]
    keeps: dict[str, Any]


WIDE = {
    "Llama 3.1 8B": Wide(
        kind="LlamaConfig",
        settings={"num_key_value_heads": 8},
        keeps={"head_dim": 128, "num_attention_heads": 2, "num_key_value_heads": 1},
    ),
    "Gemma 4 E2B": Wide(
        kind="Gemma4Config",
        settings={
            "text_config": {
                "hidden_size": 1536,
                "num_hidden_layers": 35,
                "num_key_value_heads": 1,
                "num_kv_shared_layers": 20,
                "use_double_wide_mlp": True,
                "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
            },
            "vision_config": {},
        },
        keeps={
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
            "head_dim": 256,
        },
    ),
    "Gemma 4 31B": Wide(
        kind="Gemma4Config",
        settings={
            "text_config": {
                "hidden_size": 5376,
                "num_hidden_layers": 60,
                "num_attention_heads": 32,
                "num_key_value_heads": 16,
                "num_global_key_value_heads": 4,
                "attention_k_eq_v": True,
                "hidden_size_per_layer_input": 0,
            },
            "vision_config": {},
        },
        keeps={"layer_types": ["sliding_attention", "full_attention"], "attention_k_eq_v": True},
    ),
    "Qwen3-Next 80B-A3B": Wide(
        kind="Qwen3NextConfig",
        settings={},
        keeps={"layer_types": ["linear_attention", "full_attention"], "num_experts_per_tok": 10},
    ),
    "gpt-oss 20B": Wide(
        kind="GptOssConfig",
        settings={},
        keeps={"layer_types": ["sliding_attention", "full_attention"], "num_experts_per_tok": 4},
    ),
    "Llama 4 Scout": Wide(
        kind="Llama4TextConfig",
        settings={},
        keeps={"layer_types": ["chunked_attention", "full_attention"], "moe_layers": [0, 1]},
    ),
    "DeepSeek V3": Wide(
        kind="DeepseekV3Config",
        settings={},
        keeps={"first_k_dense_replace": 1, "n_group": 8, "num_hidden_layers": 2},
    ),
    "Granite 4 H tiny": Wide(
        kind="GraniteMoeHybridConfig",
        settings={
            "hidden_size": 1536,
            "num_hidden_layers": 40,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "num_local_experts": 64,
            "num_experts_per_tok": 6,
            "mamba_n_heads": 48,
            "mamba_d_head": 64,
            "layer_types": PERIODS_OF_MAMBA,
        },
        keeps={"layer_types": ["full_attention", "linear_attention"], "num_experts_per_tok": 6},
    ),
    "Falcon-H1": Wide(kind="FalconH1Config", settings={}, keeps={"mamba_d_state": 256}),
    "Nemotron-H": Wide(
        kind="NemotronHConfig",
        settings={},
        keeps={"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"]},
    ),
    "Jamba": Wide(kind="JambaConfig", settings={}, keeps={"num_hidden_layers": 8, "attn_layer_period": 8}),
    "Qwen3-VL 8B": Wide(kind="Qwen3VLConfig", settings={}, keeps={"head_dim": 128, "num_hidden_layers": 2}),
    "RecurrentGemma": Wide(kind="RecurrentGemmaConfig", settings={}, keeps={"num_hidden_layers": 3}),
    "Mamba 2": Wide(kind="Mamba2Config", settings={}, keeps={"state_size": 128}),
}


def published(wide: Wide, folder: Path) -> Path:
    """A folder with the configuration and a tiny tokenizer, and no weights."""
    tree = getattr(transformers, wide.kind)(**wide.settings).to_dict()
    for part in (tree, tree.get("text_config") or tree):
        part |= {name: 512 for name in ("vocab_size", "vocab_size_per_layer_input") if name in part}
        part |= {name: 0 for name in ("pad_token_id", "bos_token_id", "eos_token_id") if name in part}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(tree, default=str))
    tokenizer_of(templates()["qwen2_5"]).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", WIDE)
def test_a_small_model_has_every_kind_of_layer_once(name: str, tmp_path: Path) -> None:
    wide = WIDE[name]
    source = published(wide, tmp_path / "published")
    small = make_small_model(source, tmp_path / "small")
    config = transformers.AutoConfig.from_pretrained(small.folder)
    text = config.get_text_config().to_dict()
    assert {key: text.get(key) for key in wide.keeps} == wide.keeps
    assert text["vocab_size"] == 512
    model = auto_class(config).from_pretrained(small.folder)
    assert sum(weight.numel() for weight in model.parameters()) < 8_000_000
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert (small.folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()


def test_a_model_that_is_small_already_keeps_its_configuration(tiny: Path) -> None:
    config = transformers.AutoConfig.from_pretrained(tiny / "model")
    assert all(tree == config.to_dict() for tree in shrink.forms(config).values())


def test_without_a_small_model_the_forms_and_their_errors_are_named(tmp_path: Path) -> None:
    """The heads of Zamba 2 have a size of their own, which no form changes along."""
    source = published(Wide(kind="Zamba2Config", settings={}, keeps={}), tmp_path / "published")
    with pytest.raises(NoTrial, match=r"no small model of Zamba2Config works \(narrow: Runtime"):
        make_small_model(source, tmp_path / "small")


def test_a_pattern_with_numbers_of_layers_names_those_of_the_small_model(tiny: Path, tmp_path: Path) -> None:
    source = published(WIDE["Llama 3.1 8B"], tmp_path / "published")
    small = make_small_model(source, tmp_path / "small")
    recipe = Recipe.model_validate(
        {
            "model": {"name": str(source)},
            "lora": {"target_modules": r".*\.layers\.(2\d|30)\..*\.(q|v)_proj"},
            "data": {
                "name": str(tiny / "emoji"),
                "test_rows": 8,
                "reply": "emoji",
                "prompt": "Translate: {text}",
            },
            "training": {
                "packing": False,
                "batch_size": 8,
                "accumulation_steps": 4,
                "epochs": 3,
                "schedule": "linear",
                "trl": {"use_liger_kernel": True, "adam_beta2": 0.9},
            },
            "evaluation": {"rows": 8},
        }
    )
    own = make_small_recipe(recipe, small.folder, tmp_path)
    assert own.lora and own.lora.target_modules == (
        r"model\.layers\.\d+\.self_attn\.q_proj|model\.layers\.\d+\.self_attn\.v_proj"
    )
    assert (own.training.batch_size, own.training.accumulation_steps, own.training.epochs) == (2, 1, 1)
    assert (own.data.rows, own.data.test_rows, own.evaluation.rows) == (6, 2, 2)
    assert own.training.schedule == "constant"
    # No GPU tries it.
    assert own.training.trl == {"adam_beta2": 0.9}
