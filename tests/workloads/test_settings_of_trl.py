"""`training.trl` reaches trl as it is, and what the run sets itself is refused there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from finetune.__main__ import main
from finetune.settings.recipe import Recipe, load_recipe
from finetune.settings.trl_fields import PASSED_ON, REFUSED, SET_BY_RUN
from rehearsal.running_pods.tiny import make_recipe, make_trainer
from shared.recipe_file import RecipeError


@pytest.fixture
def path(tiny: Path, tmp_path: Path) -> Path:
    return make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")


def test_settings_of_trl_reach_the_trainer_from_the_recipe_and_from_the_command(
    path: Path, tmp_path: Path
) -> None:
    tree = yaml.safe_load(path.read_text())
    tree["training"]["trl"] = {"neftune_noise_alpha": 5, "adam_epsilon": "1e-7"}
    path.write_text(yaml.safe_dump(tree))
    trainer = make_trainer(load_recipe(str(path), ["training.trl.adam_beta2=0.9"]), tmp_path)
    assert (trainer.args.neftune_noise_alpha, trainer.args.adam_beta2) == (5, 0.9)
    # YAML reads 1e-7 as a text.
    assert trainer.args.adam_epsilon == 1e-7


def test_what_a_run_sets_itself_is_refused_with_the_name_of_its_own_field(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trl

    from finetune.run import training

    own: list[str] = []

    def config(**options: Any) -> trl.SFTConfig:
        own.extend(options)
        return trl.SFTConfig(**options)

    monkeypatch.setattr(training, "SFTConfig", config)
    training.sft_arguments(load_recipe(str(path)), tmp_path / "work")
    assert set(own) <= SET_BY_RUN.keys()
    for name, field in SET_BY_RUN.items():
        meant = f"{field} in a recipe" if field else "set by the run itself"
        with pytest.raises(RecipeError, match=rf"training\.trl\.{name} is {meant}"):
            load_recipe(str(path), [f"training.trl.{name}=1"])
        if field:
            section, key = field.split(".")
            assert key in load_recipe(str(path)).to_dict()[section]


def test_every_setting_of_the_installed_library_is_in_one_of_the_tables() -> None:
    from dataclasses import fields

    import trl

    names = [*SET_BY_RUN, *REFUSED, *PASSED_ON]
    assert len(names) == len(set(names))
    assert set(names) == {field.name for field in fields(trl.SFTConfig)}


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_that_breaks_a_resume_or_does_nothing_is_refused_with_the_reason(
    name: str, path: Path
) -> None:
    with pytest.raises(RecipeError) as refusal:
        load_recipe(str(path), [f"training.trl.{name}=true"])
    assert str(refusal.value).endswith(f"training.trl.{name} is refused: {REFUSED[name]}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.trl.hub_token", "hf_" + "a" * 34),
        ("training.trl.project", "ghp_" + "a" * 36),
        ("data.system", "my key is AIza" + "b" * 35),
        ("training.trl.optim_args", "-----BEGIN " + "PRIVATE KEY-----"),
    ],
)
def test_a_secret_in_a_recipe_is_refused_and_not_repeated(key: str, value: str, path: Path) -> None:
    with pytest.raises(RecipeError, match=rf"{key} looks like a secret") as refusal:
        load_recipe(str(path), [f"{key}={value}"])
    assert value not in str(refusal.value)


@pytest.mark.parametrize(
    ("setting", "problem", "more"),
    [
        ("neftune_noise=5", "unexpected keyword argument 'neftune_noise'", []),
        ("neftune_noise=5", "unexpected keyword argument 'neftune_noise'", ["--dry-run"]),
        ("adam_beta2=high", "adam_beta2 'high': Input should be a valid number", ["--dry-run"]),
        ("use_liger_kernel=true", "use_liger_kernel needs a GPU, and this machine has none", []),
    ],
)
def test_an_error_of_trl_is_one_line(
    setting: str,
    problem: str,
    more: list[str],
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["local", f"--recipe={path}", f"--storage={tmp_path}/store", "--run=mine"]
    assert main([*command, f"--set=training.trl.{setting}", *more]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: training.trl: ") and problem in error


def test_settings_of_trl_belong_to_the_run_and_to_the_figure_of_its_memory(
    path: Path, tmp_path: Path, trained: list[Recipe], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["local", f"--recipe={path}", f"--storage={tmp_path}/store", "--run=mine"]
    assert main(command) == 0
    assert main([*command, "--set=training.trl.adam_beta2=0.9"]) == 2
    assert "training.trl" in capsys.readouterr().err
    plain, other = (load_recipe(str(path), sets) for sets in ([], ["training.trl.use_liger_kernel=true"]))
    assert plain.memory_digest != other.memory_digest
    assert trained == [plain]
