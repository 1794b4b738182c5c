"""Recipe files: what is read, and how mistakes are reported."""

from pathlib import Path

import pytest

from maxtext_driver.recipe import RECIPES, load_recipe
from shared.recipe_file import RecipeError

GOOD = "maxtext:\n  model_name: llama3-8b\n  steps: 100\n"


def write(directory: Path, text: str, name: str = "mine.yaml") -> str:
    (directory / name).write_text(text)
    return str(directory / name)


def test_the_two_recipes_train_the_same_model_on_sequences_of_the_same_length() -> None:
    tuned, tutorial = load_recipe("llama3-8b").maxtext, load_recipe("llama3-8b-tutorial").maxtext
    for key in ("model_name", "max_target_length", "dataset_type", "steps"):
        assert tuned[key] == tutorial[key]


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_no_shipped_recipe_dumps_programs_or_leaves_out_checkpoints(name: str) -> None:
    recipe = load_recipe(name)
    assert not [flag for flag in recipe.libtpu_flags if "dump" in flag]
    assert not [key for key in recipe.maxtext if "dump" in key]
    assert 0 < recipe.maxtext["checkpoint_period"] <= recipe.steps


def test_a_recipe_adds_to_what_it_extends_and_replaces_what_it_repeats(tmp_path: Path) -> None:
    base = write(tmp_path, GOOD + "libtpu_flags: [--a=1, --b=1]\n", "base.yaml")
    path = write(tmp_path, f"extends: {base}\nmaxtext: {{steps: 7}}\nlibtpu_flags: [--b=2, --c=2]\n")
    recipe = load_recipe(path)
    assert recipe.maxtext == {"model_name": "llama3-8b", "steps": 7}
    assert recipe.libtpu_flags == ("--a=1", "--b=2", "--c=2")


def test_a_recipe_takes_a_setting_away_from_what_it_extends(tmp_path: Path) -> None:
    base = write(tmp_path, GOOD + "  dtype: float32\n", "base.yaml")
    path = write(tmp_path, f"extends: {base}\nmaxtext: {{dtype: null}}\n")
    assert load_recipe(path).maxtext == {"model_name": "llama3-8b", "steps": 100}


def test_a_setting_on_the_command_line_takes_the_place_of_the_recipe_s(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, GOOD), ["steps=3", "learning_rate=1.0e-4", "dtype=a/b"])
    assert recipe.maxtext == {"model_name": "llama3-8b", "steps": 3, "learning_rate": 1e-4, "dtype": "a/b"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("maxtex:\n  steps: 1\n", "unknown key maxtex (did you mean maxtext?)"),
        ("- a\n", "must be a mapping"),
        ("maxtext: {steps: 1\n", "is not valid YAML"),
        ("maxtext:\n  steps: 1\n  steps: 2\n", "key 'steps' is given twice"),
        ("maxtext:\n  model_name: llama3-8b\n", "steps is missing"),
        (GOOD.replace("100", "-1"), "steps must be a whole number greater than 0, not -1"),
        (GOOD + "  run_name: a\n", "run_name is set by the driver"),
        (GOOD + "  remat_policy:\n", "remat_policy has no value"),
        (GOOD + "  compile_xla_flags: --a=1\n", "compile_xla_flags has no effect on the trained step"),
        (GOOD + "  hf_path: me/rows\n", "hf_path is read at any commit"),
        (GOOD + "  lora: {enable_lora: true}\n", "lora trains nothing"),
        (GOOD + "  use_dpo: true\n", "use_dpo is of another program"),
        (GOOD + "  use_sft: true\n", "use_sft needs dataset_type: grain"),
        (GOOD + "  use_sft: true\n", "use_sft needs grain_train_files, the files with the conversations"),
        (GOOD + "  use_sft: true\n", "use_sft needs load_parameters_path: hf://ORGANIZATION/NAME"),
        (GOOD + "  use_sft: true\n", "use_sft needs max_target_length"),
        (GOOD + "  use_sft: true\n  num_epoch: 2\n", "num_epoch and steps both say how long use_sft trains"),
        (GOOD + "  use_sft: true\n  train_data_columns: []\n", "must be the column of the conversations"),
        (GOOD + "  use_sft: true\n  packing: false\n", "packing is of MaxText's own rows, and use_sft has"),
        (GOOD + "  use_tunix_gradient_accumulation: true\n", "use_tunix_gradient_accumulation is of another"),
        (GOOD + "  max_num_seqs: 3\n", "max_num_seqs is of serving"),
        (GOOD + "  load_parameters_path: hf://model\n", "takes from the Hub as hf://ORGANIZATION/NAME"),
        (GOOD + "  tokenizer_path: hf://me/model\n", "as hf://datasets/ORGANIZATION/NAME/FILES"),
        (GOOD + "  grain_train_files: hf://datasets/rows/*.parquet\n", "hf://datasets/ORGANIZATION/NAME/"),
        (GOOD + "libtpu_flags: [xla_a]\n", "libtpu flag 'xla_a' must be --name=value"),
        (GOOD + "libtpu_flags: --xla_a=1\n", "libtpu_flags must be a valid list"),
        (GOOD + "extends: llama3-8\n", "did you mean llama3-8b?"),
        (GOOD + "extends: [a]\n", "extends must be a valid string"),
    ],
)
def test_a_mistake_in_a_file_is_named_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(RecipeError) as error:
        load_recipe(write(tmp_path, text))
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"KEY=VALUE.*; maxtext run_name is set by.*; unknown key a"):
        load_recipe(write(tmp_path, GOOD + "  run_name: a\na: 1\n"), ["steps"])


def test_recipes_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    path = write(tmp_path, GOOD + f"extends: {other}\n")
    other.write_text(GOOD + f"extends: {path}\n")
    with pytest.raises(RecipeError, match="extends it in turn"):
        load_recipe(path)


@pytest.mark.parametrize("name", ["llama3-8bb", "no/such.yaml"])
def test_a_recipe_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(RecipeError, match=name):
        load_recipe(name)
