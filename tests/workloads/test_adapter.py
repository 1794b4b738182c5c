"""The layers that get an adapter: told by the model, and refused where a merge would break it."""

import json
from pathlib import Path
from typing import Any

import pytest
from published import FAMILIES, make_published
from test_published import recipe_of, start
from tiny_families import FAMILIES as TINY

from shared.errors import InputError

# Layers that the default reaches and their names do not say, by the class of a model's configuration.
REACHED = {
    "Phi3Config": ("self_attn.qkv_proj", "mlp.gate_up_proj"),
    "Qwen3_5Config": ("linear_attn.in_proj_qkv", "linear_attn.out_proj", "self_attn.q_proj"),
    "Qwen3NextConfig": ("linear_attn.in_proj_qkvz", "linear_attn.out_proj"),
    "DeepseekV3Config": ("self_attn.q_a_proj", "self_attn.kv_b_proj"),
    "Lfm2Config": ("conv.in_proj", "feed_forward.w1", "self_attn.out_proj"),
    "GraniteMoeHybridConfig": ("shared_mlp.input_linear", "self_attn.q_proj"),
    "Glm4Config": ("mlp.gate_up_proj", "mlp.down_proj"),
    "Starcoder2Config": ("mlp.c_fc", "mlp.c_proj"),
    "PhiConfig": ("mlp.fc1", "self_attn.dense"),
    "GPT2Config": ("attn.c_attn", "mlp.c_fc"),
    "FalconH1Config": ("mamba.in_proj", "feed_forward.up_proj"),
    "BambaConfig": ("mamba.in_proj", "feed_forward.up_proj"),
    "Gemma4Config": ("per_layer_input_gate", "mlp.up_proj"),
}
# Layers that the default does not reach: peft cannot adapt them in a model of that class.
BEYOND = {
    "BambaConfig": set[str](),
    "DeepseekV3Config": {"gate_proj", "up_proj", "down_proj"},
    "FalconH1Config": {"out_proj"},
    "Qwen3NextConfig": {"gate_proj", "up_proj", "down_proj"},
}
SETTINGS: dict[str, dict[str, Any]] = {family.kind: family.settings for family in FAMILIES.values()} | {
    TINY[name][1]: TINY[name][2] for name in ("Gemma 4", "Qwen 3.5", "LFM2")
}


def base_of(kind: str) -> Any:
    """The model without weights. Classes without an entry have the sizes of their defaults."""
    import torch
    import transformers

    from finetune.model.families import auto_class

    config = getattr(transformers, kind)(**SETTINGS.get(kind, {"num_hidden_layers": 2}))
    with torch.device("meta"):
        return auto_class(config).from_config(config)


@pytest.mark.parametrize("kind", REACHED)
def test_the_default_adapter_is_every_linear_layer_of_the_language_model(kind: str) -> None:
    import torch
    from peft import get_peft_model
    from transformers.pytorch_utils import Conv1D

    from finetune.model.adapter import lora_config
    from finetune.model.families import language_part
    from finetune.settings.lora import Lora

    base = base_of(kind)
    inside = {id(module) for module in language_part(base).modules()} - {id(base.get_output_embeddings())}
    linear = {
        name
        for name, module in base.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and id(module) in inside
    }
    adapted: Any = get_peft_model(base, lora_config(Lora(), base))
    changed = {name for name, module in adapted.base_model.model.named_modules() if hasattr(module, "lora_A")}
    for layer in REACHED[kind]:
        assert any(name.endswith(f".{layer}") for name in changed), layer
    assert changed <= linear
    missed = {name.split(".")[-1] for name in linear - changed}
    assert missed - {"shared_expert_gate"} == BEYOND.get(kind, set())


def test_a_line_says_what_the_default_leaves_out(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES["Qwen/Qwen3-30B-A3B"], tmp_path / "model")
    line = (
        "% of the language model's layers: model.layers.N.mlp.experts.gate_up_proj, "
        "model.layers.N.mlp.experts.down_proj; lora.target_parameters can name experts\n"
    )
    recipe = recipe_of(model, tiny, tmp_path)
    for more in (["--dry-run"], []):
        assert start(recipe, *more) == 0
        assert capsys.readouterr().out.count(line) == 1
    (tmp_path / "dense").mkdir()
    dense = make_published(FAMILIES["Qwen/Qwen3-0.6B"], tmp_path / "dense/model")
    assert start(recipe_of(dense, tiny, tmp_path), "--dry-run") == 0
    assert "leaves out" not in capsys.readouterr().out


def test_experts_get_an_adapter_by_the_names_of_their_parameters(tiny: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    model = make_published(FAMILIES["Qwen/Qwen3-30B-A3B"], tmp_path / "model")
    experts = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
    recipe = recipe_of(model, tiny, tmp_path, lora={"target_parameters": experts})
    assert start(recipe) == 0
    run = tmp_path / "store/mine"
    # PEFT keeps these names as a set, so their order in the file differs from process to process.
    adapted = json.loads((run / "adapter/adapter_config.json").read_text())["target_parameters"]
    assert sorted(adapted) == sorted(experts)
    with (
        safe_open(run / "model/model.safetensors", "pt") as merged,
        safe_open(model / "model.safetensors", "pt") as base,
    ):
        name = "model.layers.0.mlp.experts.0.down_proj.weight"
        assert not merged.get_tensor(name).float().allclose(base.get_tensor(name).bfloat16().float())


@pytest.mark.parametrize(
    ("lora", "problem"),
    [
        ({"target_parameters": ["mlp.experts.w1"]}, "lora.target_parameters mlp.experts.w1 is the end of no"),
        (
            {"target_parameters": ["mlp.experts.down_proj"], "dropout": 0.1},
            "lora.target_parameters needs lora.dropout 0",
        ),
    ],
)
def test_parameters_that_get_no_adapter_are_refused(
    lora: dict[str, Any], problem: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES["Qwen/Qwen3-30B-A3B"], tmp_path / "model")
    assert start(recipe_of(model, tiny, tmp_path, lora=lora), "--dry-run") == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("layer", ["embed_tokens", "lm_head"])
def test_an_adapter_on_a_weight_with_two_uses_is_not_merged(
    layer: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES["Qwen/Qwen3-0.6B"], tmp_path / "model")
    recipe = recipe_of(model, tiny, tmp_path, lora={"target_modules": f".*(q_proj|{layer})"})
    for more in (["--dry-run"], []):
        assert start(recipe, *more) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"{layer}, whose weight is both the input embedding and the output layer" in error
    assert start(recipe, "--dry-run", "--set=training.result=adapter") == 0


def test_a_merged_model_that_is_another_than_the_trained_one_is_not_published(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check of tied weights is left out here, so that the run comes to the comparison."""
    monkeypatch.setattr("finetune.model.adapter._tied", lambda _: [])
    model = make_published(FAMILIES["Qwen/Qwen3-0.6B"], tmp_path / "model")
    recipe = recipe_of(
        model,
        tiny,
        tmp_path,
        lora={"target_modules": ".*embed_tokens", "alpha": 64},
        training={"epochs": 8, "learning_rate": 0.05},
    )
    assert start(recipe) == 2
    assert "predicts other tokens than the one that was trained" in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / "store/mine/adapter").exists() and not (tmp_path / "store/mine/model").exists()


def test_what_the_library_cannot_adapt_is_told_in_one_line() -> None:
    from finetune.model.adapter import check_adapter
    from finetune.settings.recipe import Recipe

    recipe = Recipe.model_validate(
        {
            "model": {"name": "a/b"},
            "lora": {"target_modules": ".*out_proj"},
            "data": {"name": "c/d", "prompt": "{a}", "reply": "b"},
        }
    )
    with pytest.raises(InputError, match=r"peft cannot adapt FalconH1ForCausalLM: .*incompatible"):
        check_adapter(recipe, base_of("FalconH1Config"))
