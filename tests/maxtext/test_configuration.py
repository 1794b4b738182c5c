"""Recipes as MaxText itself reads them, for a slice of TPUs, on a machine without one."""

import os
from pathlib import Path

import pytest
from tiny import make_recipe

from maxtext_driver.recipe import RECIPES, load_recipe
from shared.errors import InputError

CHIPS = 16


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_maxtext_takes_every_setting_of_a_shipped_recipe(name: str) -> None:
    from maxtext_driver.configuration import check_configuration

    recipe = load_recipe(name)
    config = check_configuration(recipe, CHIPS)
    for key, value in recipe.maxtext.items():
        if key not in ("model_name", "tokenizer_path", "tokenizer_type", "load_parameters_path"):
            assert getattr(config, key) == value
    assert config.num_decoder_layers == 32
    assert config.emb_dim == 4096
    assert check_configuration(recipe, CHIPS, slices=2).num_slices == 2


def test_no_process_of_a_recipe_dumps_the_programs_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """MaxText would set XLA_FLAGS so, also without dump_hlo."""
    from maxtext_driver.configuration import check_configuration

    recipe = load_recipe("llama3-8b")
    for key, value in recipe.environment.items():
        monkeypatch.setenv(key, value)
    check_configuration(recipe, CHIPS)
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to="


def test_the_tokenizer_of_the_recipe_with_real_data_comes_with_maxtext() -> None:
    from maxtext_driver.configuration import check_configuration

    config = check_configuration(load_recipe("llama3-8b-fineweb-edu"), CHIPS)
    assert Path(config.tokenizer_path).is_file()


def test_the_plan_of_the_tutorial_s_recipe_has_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """179.739 TFLOP/s for 1.100 s: the tutorial's own log."""
    from maxtext_driver.plan import print_plan

    print_plan(load_recipe("llama3-8b-tutorial"), CHIPS, "TPU-V6E")
    *_, batch, steps, _ = capsys.readouterr().out.splitlines()
    assert batch == "batch   16 sequences of 4096 tokens on 16 chips"
    words = steps.split()
    assert words[:6] == ["steps", "100,", "each", "of", "65,536", "tokens"]
    assert float(words[7]) == pytest.approx(179.739 * 1.100, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"stepss": 3}, "has no setting stepss (did you mean steps?)"),
        ({"model_name": "llama3-8"}, "has no model llama3-8 (did you mean llama3-8b?)"),
        (
            {"model_name": "llama3-8b", "load_parameters_path": "hf://me/model"},
            "converts no weights of llama3-8b (did you mean llama3.1-8b?)",
        ),
        ({"dataset_type": "books"}, "dataset_type"),
        ({"per_device_batch_size": "many"}, "per_device_batch_size"),
        (
            {"dataset_type": "grain", "grain_train_files": "/data/*.parquet", "tokenizer_path": "me/tokens"},
            "reads the tokenizer me/tokens from the Hub, at any commit; set tokenizer_path to",
        ),
    ],
)
def test_what_maxtext_does_not_take_is_named_in_one_line(
    tmp_path: Path, settings: dict[str, object], reason: str
) -> None:
    from maxtext_driver.configuration import check_configuration

    recipe = load_recipe(str(make_recipe(tmp_path / "recipe.yaml", **settings)))
    with pytest.raises(InputError) as error:
        check_configuration(recipe, None)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
