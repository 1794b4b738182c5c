"""Recipes: what is read and what is refused. Nothing heavy is imported."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from finetune.errors import InputError
from finetune.recipe import RECIPES, load_recipe


@pytest.fixture
def tree() -> dict[str, Any]:
    return yaml.safe_load((RECIPES / "gemma-3-4b-vision.yaml").read_text())


def message(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused(tmp_path: Path, tree: object) -> str:
    return message(tmp_path, yaml.safe_dump(tree))


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_every_shipped_recipe_loads_by_its_name(name: str) -> None:
    assert load_recipe(name).model.name


def test_the_vision_recipe_keeps_the_tutorial_s_values() -> None:
    recipe = load_recipe("gemma-3-4b-vision")
    training = recipe.training
    assert recipe.model.name == "google/gemma-3-4b-it"
    assert recipe.data.name == "philschmid/amazon-product-descriptions-vlm"
    assert (recipe.lora.rank, recipe.lora.alpha, recipe.lora.dropout) == (16, 16, 0.05)
    assert (training.epochs, training.learning_rate, training.max_grad_norm) == (3, 2e-4, 0.3)
    assert training.batch_size * training.accumulation_steps == 4


def test_a_misspelt_key_is_refused_with_the_right_one(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["lora"]["rnak"] = tree["lora"].pop("rank")
    text = refused(tmp_path, tree)
    assert "unknown key lora.rnak (did you mean rank?)" in text
    assert "missing key lora.rank (a whole number)" in text


def test_all_problems_are_told_at_once(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["trainings"] = tree["training"] | {"epochs": 0}
    tree["training"]["batch_size"] = "four"
    tree["training"]["seed"] = -1
    tree["model"]["precision"] = "fp16"
    tree["lora"]["dropout"] = 1
    text = refused(tmp_path, tree)
    for problem in (
        "unknown key trainings (did you mean training?)",
        "training.batch_size must be a whole number, not 'four'",
        "training.seed must be at least 0, not -1",
        "model.precision must be one of bf16, fp32, not 'fp16'",
        "lora.dropout must be at least 0 and below 1, not 1",
    ):
        assert problem in text


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (
            "learning_rate",
            "2e-4",
            "training.learning_rate must be a number, not '2e-4' (write 0.0002 or 2.0e-04)",
        ),
        ("epochs", True, "training.epochs must be a whole number, not True"),
        ("epochs", 0, "training.epochs must be greater than 0, not 0"),
        ("gradient_checkpointing", 1, "training.gradient_checkpointing must be true or false, not 1"),
        ("max_grad_norm", None, "training.max_grad_norm must be a number, not nothing"),
        ("schedule", ["constant"], "training.schedule must be one of constant, linear, cosine, not a list"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    tmp_path: Path, tree: dict[str, Any], key: str, value: object, problem: str
) -> None:
    tree["training"][key] = value
    assert problem in refused(tmp_path, tree)


def test_a_placeholder_without_a_column_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["data"]["prompt"] = "Describe {prodct} of {category}"
    text = refused(tmp_path, tree)
    assert "data.prompt uses {prodct}, which data.fields does not name (did you mean product?)" in text
    assert "data.fields.product is not used in data.prompt" in text


def test_an_empty_text_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["data"]["name"] = "  "
    assert "data.name is empty" in refused(tmp_path, tree)


def test_a_section_that_is_no_mapping_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["lora"] = 16
    assert "lora must be a mapping of keys, not 16" in refused(tmp_path, tree)
    assert "the file must be a mapping of keys, not a list" in refused(tmp_path, ["model"])


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    assert "key 'rank' is given twice" in message(tmp_path, "lora:\n  rank: 8\n  rank: 16\n")


def test_broken_yaml_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "is not valid YAML" in message(tmp_path, "model: [unclosed\n")


def test_an_unknown_recipe_is_refused_with_a_near_name() -> None:
    with pytest.raises(
        InputError, match=r"no recipe 'gemma-3-4b-vison' \(did you mean gemma-3-4b-vision\?\)"
    ):
        load_recipe("gemma-3-4b-vison")
    with pytest.raises(InputError, match=r"recipe file .*absent\.yaml does not exist"):
        load_recipe("/nowhere/absent.yaml")
