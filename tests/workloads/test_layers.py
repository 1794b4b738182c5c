"""An adapter that would be on no layer is found before nodes, weights and rows are asked for."""

import json
from pathlib import Path

import pytest

from finetune.__main__ import main
from finetune.settings.layers import GEMMA_3_WITH_PICTURES, TEXT
from finetune.settings.recipe import load_recipe
from rehearsal.running_pods.tiny import make_recipe
from shared.errors import InputError
from shared.recipe_file import RecipeError

NO_LAYER = r"lora.target_modules=.*language_model\.nothing"


@pytest.mark.parametrize(
    ("recipe", "model", "problem"),
    [
        # The layers of the models with pictures are called otherwise than those of the small ones.
        ("gemma-3-4b-sql", "google/gemma-3-1b-it", "has for example model.layers.0.self_attn.q_proj"),
        ("gemma-3-4b-sql", "meta-llama/Llama-3.1-8B-Instruct", "has for example model.layers.0."),
        ("gemma-3-1b-emoji", "google/gemma-3-27b-it", ""),
        ("gemma-3-4b-sql", "me/my-own-model", ""),
    ],
)
def test_the_recipe_of_a_known_model_is_rejected_if_no_layer_matches(
    recipe: str, model: str, problem: str
) -> None:
    if not problem:
        load_recipe(recipe, [f"model.name={model}"])
        return
    with pytest.raises(RecipeError, match=rf"lora\.target_modules .* matches no layer of {model}") as caught:
        load_recipe(recipe, [f"model.name={model}"])
    assert problem in str(caught.value)


def test_a_broken_pattern_is_rejected() -> None:
    with pytest.raises(RecipeError, match=r"lora\.target_modules \*\.mlp is no regular expression"):
        load_recipe("gemma-3-1b-emoji", ["lora.target_modules=*.mlp"])


@pytest.mark.parametrize("kind", ["gemma3_text", "gemma3", "llama", "mistral", "qwen2", "qwen3"])
def test_the_known_layers_are_those_of_the_library(kind: str) -> None:
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind]())
    layers = {
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | torch.nn.Embedding | torch.nn.Conv2d)
    }
    known = set(GEMMA_3_WITH_PICTURES if kind == "gemma3" else TEXT)
    assert layers <= known
    assert {name.replace(".0.", ".127.") for name in layers} <= known


def test_a_run_ends_with_code_2_before_it_reads_its_rows(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune.run import training

    monkeypatch.setattr(training, "fetch_model", pytest.fail)
    monkeypatch.setattr(training, "load_conversations", pytest.fail)
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    command = ["local", f"--recipe={recipe}", f"--storage={tmp_path}/store", "--run=mine"]
    assert main([*command, f"--set={NO_LAYER}"]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.endswith("matches no module of Gemma3ForCausalLM")


def test_a_dry_run_finds_it_before_it_reads_the_rows(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune import dry_run

    monkeypatch.setattr(dry_run, "check_data", pytest.fail)
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    with pytest.raises(InputError, match="matches no module of Gemma3ForCausalLM"):
        dry_run.make_plan(load_recipe(str(recipe), [NO_LAYER]), processes=1)


def test_a_model_that_is_no_language_model_ends_with_code_2_and_one_line(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "t5"}))
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    assert main(["local", f"--recipe={recipe}", f"--set=model.name={model}", "--dry-run"]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: model {model} cannot be loaded as a language model: ")
