"""The kinds of an adapter: rsLoRA, DoRA, and the word that trl has for the default."""

import json
from pathlib import Path
from typing import Any

import pytest
from published import FAMILIES, make_published
from safetensors import safe_open
from test_published import FEW, recipe_of

from finetune.settings.recipe import Recipe, load_recipe
from trial.stages import STOPPED, resume_and_publish, train_until_stop, train_without_stop

# Four steps of two rows.
STEPS = {"packing": False, "batch_size": 2, "save_every_steps": 1}


def recipe_with(lora: dict[str, Any], **training: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "model": {"name": "a/b"},
            "lora": lora,
            "data": {"name": "c/d", "prompt": "{a}", "reply": "b"},
            "training": training,
        }
    )


def test_all_linear_is_the_default_and_no_other_recipe() -> None:
    assert recipe_with({"target_modules": "all-linear"}) == recipe_with({})


@pytest.mark.parametrize(
    ("lora", "training", "problem"),
    [
        ({"target_parameters": ["a.b"]}, {}, "lora.use_dora is for layers"),
        ({}, {"sharding": "fsdp2"}, "lora.use_dora needs whole layers"),
    ],
)
def test_dora_is_refused_where_it_does_not_fit(
    lora: dict[str, Any], training: dict[str, Any], problem: str
) -> None:
    recipe_with(lora, **training)
    with pytest.raises(ValueError, match=problem):
        recipe_with(lora | {"use_dora": True}, **training)


def test_only_dora_takes_other_memory() -> None:
    plain = recipe_with({}).memory_digest
    assert recipe_with({"use_rslora": True}).memory_digest == plain
    assert recipe_with({"use_dora": True}).memory_digest != plain


@pytest.mark.parametrize("kind", ["use_rslora", "use_dora"])
def test_a_run_that_is_stopped_ends_with_the_same_adapter_and_merges_it(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    """The trial's own stages. A merge fails if the merged model is another than the trained one."""
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    recipe = load_recipe(str(recipe_of(model, tiny, tmp_path, lora={kind: True}, training=STEPS)))
    train_until_stop(recipe, tmp_path)
    resume_and_publish(recipe, tmp_path)
    # Raises for another weight.
    train_without_stop(recipe, tmp_path)
    published = json.loads((tmp_path / STOPPED / "adapter/adapter_config.json").read_text())
    assert {name: published[name] for name in ("use_rslora", "use_dora")} == {
        name: name == kind for name in ("use_rslora", "use_dora")
    }
    with safe_open(tmp_path / STOPPED / "adapter/adapter_model.safetensors", "pt") as adapter:
        lengths = [name for name in [*adapter.keys()] if "lora_magnitude_vector" in name]
    assert bool(lengths) == (kind == "use_dora")
