"""A run begins with a trained adapter: of a finished run, of a folder, of the Hub."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from published import FAMILIES, make_published
from safetensors.torch import load_file, save_file
from test_lora_kinds import STEPS
from test_published import FEW, recipe_of, start
from trial_command import Ended

from finetune.settings.recipe import load_recipe
from rehearsal.stand_ins.hub import Hub
from shared.errors import InputError
from shared.recipe_file import RecipeError
from trial.stages import STOPPED, resume_and_publish, train_until_stop, train_without_stop

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def first(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with an adapter of rank 4, beside its model."""
    folder = tmp_path_factory.mktemp("first")
    model = make_published(FAMILIES[FEW], folder / "model")
    assert start(recipe_of(model, tiny, folder, lora={"rank": 4, "use_rslora": True}, training=STEPS)) == 0
    return folder / "store/mine"


def continued(first: Path, tiny: Path, folder: Path, **model: Any) -> Path:
    """A recipe that begins with the run's adapter."""
    settings = {"adapter": str(first)} | model
    path = recipe_of(first.parents[1] / "model", tiny, folder, model=settings, lora=None, training=STEPS)
    tree = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({key: value for key, value in tree.items() if value is not None}))
    return path


def copied(first: Path, folder: Path, **config: Any) -> Path:
    """A folder with the two files of the run's adapter, with other values in its configuration."""
    adapter = shutil.copytree(first / "adapter", folder / "adapter")
    tree = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(tree | config))
    return adapter


def test_a_run_begins_with_the_weights_of_another_and_ends_the_same_after_a_stop(
    first: Path, tiny: Path, tmp_path: Path
) -> None:
    from trial.stages import WHOLE

    recipe = load_recipe(str(continued(first, tiny, tmp_path)))
    train_until_stop(recipe, tmp_path)
    resume_and_publish(recipe, tmp_path)
    # Raises for another weight.
    train_without_stop(recipe, tmp_path)
    config = json.loads((tmp_path / STOPPED / "adapter/adapter_config.json").read_text())
    assert (config["r"], config["use_rslora"]) == (4, True)
    before = json.loads((tmp_path / WHOLE / "before.json").read_text())
    assert before["eval_loss"] == pytest.approx(
        json.loads((first / "COMPLETE.json").read_text())["evaluation"]["eval_loss"], abs=1e-4
    )


def test_a_trial_and_a_dry_run_take_such_a_recipe(
    first: Path, tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    recipe = continued(first, tiny, tmp_path)
    assert start(recipe, "--dry-run") == 0
    ended = tried(recipe, f"--storage={tmp_path}/trials")
    assert ended.code == 0 and "passed its trial" in ended.out, ended.err


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"base_model_name_or_path": "a/b"}, "trained on a/b, and model.name is"),
        ({"base_model_name_or_path": None}, "trained on no model that it names"),
        ({"peft_type": "IA3"}, "peft_type 'IA3', and a run trains LORA alone"),
        ({"modules_to_save": ["lm_head"]}, "has modules_to_save, which a run cannot continue"),
        ({"rank_pattern": {"q_proj": 8}}, "has rank_pattern"),
        ({"bias": "all"}, "has bias"),
        ({"r": 8}, "is [4, "),
        ({"r": "4"}, "r Input should be a valid integer"),
        ({"target_modules": ["q_proj"]}, "and absent in the model"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_before_weights_are_loaded(
    config: dict[str, Any],
    problem: str,
    first: Path,
    tiny: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = continued(first, tiny, tmp_path, adapter=str(copied(first, tmp_path, **config)))
    assert start(recipe, "--dry-run") == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_a_folder_of_an_adapter_with_names_of_layers_begins_a_run(
    first: Path, tiny: Path, tmp_path: Path
) -> None:
    """PEFT's own form has a list of the ends of names."""
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    recipe = continued(first, tiny, tmp_path, adapter=str(copied(first, tmp_path, target_modules=names)))
    assert start(recipe, "--dry-run") == 0


def test_an_adapter_that_changes_after_the_start_is_refused(first: Path, tiny: Path, tmp_path: Path) -> None:
    adapter = copied(first, tmp_path)
    recipe = load_recipe(str(continued(first, tiny, tmp_path, adapter=str(adapter))))
    train_until_stop(recipe, tmp_path)
    weights = load_file(adapter / WEIGHTS)
    save_file({name: weight * 2 for name, weight in weights.items()}, adapter / WEIGHTS)
    shutil.rmtree(tmp_path / "datasets")
    with pytest.raises(InputError, match="has changed since the run began"):
        resume_and_publish(recipe, tmp_path)


@pytest.mark.parametrize("lost", ["adapter_config.json", WEIGHTS])
def test_only_an_adapter_of_two_files_is_read(
    lost: str, first: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = copied(first, tmp_path)
    (adapter / lost).rename(adapter / "adapter_model.bin")
    assert start(continued(first, tiny, tmp_path, adapter=str(adapter)), "--dry-run") == 2
    assert f"has no {lost}" in capsys.readouterr().err.splitlines()[-1]


def test_a_link_out_of_the_folder_is_not_followed(
    first: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = copied(first, tmp_path)
    (adapter / WEIGHTS).rename(tmp_path / "elsewhere")
    (adapter / WEIGHTS).symlink_to(tmp_path / "elsewhere")
    assert start(continued(first, tiny, tmp_path, adapter=str(adapter)), "--dry-run") == 2
    assert "has a link to a file outside of it" in capsys.readouterr().err.splitlines()[-1]


def test_a_run_without_a_finished_adapter_is_refused(
    first: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(first, tmp_path / "unfinished")
    (run / "COMPLETE.json").unlink()
    assert start(continued(first, tiny, tmp_path, adapter=str(run)), "--dry-run") == 2
    assert "is no finished run with an adapter" in capsys.readouterr().err.splitlines()[-1]


def test_an_adapter_of_the_hub_is_kept_at_its_commit(
    hub: Hub, first: Path, tiny: Path, tmp_path: Path
) -> None:
    name = f"me/{tmp_path.name}"
    hub.model(name).push(copied(first, tmp_path))
    recipe = continued(first, tiny, tmp_path, adapter=name)
    assert start(recipe) == 0
    commit = json.loads((tmp_path / "store/mine/run.json").read_text())["commits"]["adapter"]
    assert commit in hub.model(name).commits


def test_what_the_adapter_says_itself_is_not_given_twice(first: Path, tiny: Path, tmp_path: Path) -> None:
    recipe = str(continued(first, tiny, tmp_path))
    with pytest.raises(RecipeError, match=r"lora\.rank is in the adapter's own configuration"):
        load_recipe(recipe, ["lora.rank=8"])
    shipped = load_recipe(recipe)
    (tmp_path / "shipped.yaml").write_text(yaml.safe_dump(shipped.to_dict()))
    assert load_recipe(str(tmp_path / "shipped.yaml")) == shipped
    with pytest.raises(RecipeError, match=r"model\.adapter_revision is of the Hub"):
        load_recipe(recipe, ["model.adapter_revision=main"])
