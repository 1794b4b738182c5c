"""The command line with bad input: one line, a non-zero exit code, no directory of a run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from finetune.__main__ import main
from rehearsal.running_pods.tiny import make_recipe

HELP = """
import sys
from finetune.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit as exit:
    assert exit.code == 0
heavy = {"torch", "transformers", "trl", "peft", "ray", "datasets", "pyarrow", "numpy", "huggingface_hub"}
print("heavy:", sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ray", "--help"], ["local", "--help"], ["torchrun", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", HELP, *arguments], capture_output=True, text=True, check=True
    )
    assert "usage: python -m finetune" in result.stdout
    assert result.stdout.endswith("heavy: []\n")


@pytest.mark.parametrize("command", ["ray", "local", "torchrun"])
def test_a_bad_recipe_key_ends_the_command_before_anything_is_written(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tmp_path, epoch=1)
    assert run(command, recipe, tmp_path / "store") == 2
    assert_one_line(capsys, "unknown key training.epoch (did you mean epochs?)")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("command", ["ray", "local"])
def test_a_bad_override_ends_the_command_before_anything_is_written(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tmp_path)
    assert run(command, recipe, tmp_path / "store", "--set", "training.learning_rat=1e-4") == 2
    assert_one_line(capsys, "unknown key training.learning_rat (did you mean learning_rate?)")
    assert not (tmp_path / "store").exists()


def test_an_override_is_what_the_run_is_started_with(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is recorded, so the next start cannot have another value."""
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    absent = ("--set", f"model.name={tiny}/absent")
    assert run("local", recipe, tmp_path / "store", *absent, "--set", "training.learning_rate=1e-4") == 2
    started = json.loads((tmp_path / "store" / "mine" / "run.json").read_text())
    assert started["recipe"]["training"]["learning_rate"] == 1e-4
    capsys.readouterr()
    assert run("local", recipe, tmp_path / "store", *absent) == 2
    assert_one_line(capsys, "was started with another training.learning_rate;")


@pytest.mark.parametrize("options", [["--storage", "/tmp"], ["--run", "mine"], []])
def test_a_run_needs_a_storage_and_a_name(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["local", "--recipe", "gemma-3-1b-emoji", *options])
    assert exit.value.code == 2
    assert "--storage and --run are required, except with --dry-run" in capsys.readouterr().err


def test_an_unknown_recipe_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("local", "gemma-3-4b-vision-x", tmp_path / "store") == 2
    assert_one_line(capsys, "there is no recipe 'gemma-3-4b-vision-x' (did you mean gemma-3-4b-vision?)")


@pytest.mark.parametrize("command", ["ray", "local", "torchrun"])
def test_a_missing_data_set_ends_the_command(
    command: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    assert run(command, recipe, tmp_path / "store", "--set", f"data.name={tiny}/absent") == 2
    assert_one_line(capsys, f"data set {tiny}/absent does not exist")
    assert not list((tmp_path / "store" / "mine").glob("*COMPLETE*"))


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        (
            "data.name=nobody/nothing",
            "data set nobody/nothing is not in the cache, and HF_HUB_OFFLINE forbids",
        ),
        ("model.revision=main", "model.revision is of the Hub, and model.name no id of it"),
        (
            "data.fields.category=Kategorie",
            "has no column Kategorie; it has image, Product Name, Category, description",
        ),
        ("data.split=test", "cannot be loaded: "),
        ("data.rows=1000", "has 16 usable rows in split train, and the recipe takes 1000"),
        ("model.name=/absent", "model /absent is not a directory with a config.json"),
    ],
)
def test_what_cannot_be_trained_on_ends_the_command(
    override: str, problem: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    assert run("local", recipe, tmp_path / "store", "--set", override) == 2
    assert_one_line(capsys, problem)


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_an_empty_data_set_ends_the_command(
    options: list[str], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from datasets import Dataset, Features, Value

    (tmp_path / "empty").mkdir()
    text = Value("string")
    columns = Features({"text": text, "emoji": text})
    Dataset.from_dict({"text": [], "emoji": []}, features=columns).to_parquet(
        tmp_path / "empty" / "train.parquet"
    )
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    empty = f"data.name={tmp_path}/empty"
    assert run("local", recipe, tmp_path / "store", "--set", empty, *options) == 2
    assert_one_line(capsys, f"data set {tmp_path}/empty has no rows in split train")
    assert not list(tmp_path.rglob("*COMPLETE*"))


@pytest.mark.parametrize("command", ["ray", "local", "torchrun"])
def test_an_unwritable_storage_ends_the_command(
    command: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-file").write_text("no directory")
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    assert run(command, recipe, tmp_path / "a-file") == 2
    assert_one_line(capsys, f"storage {tmp_path}/a-file/mine cannot be used: ")


@pytest.mark.parametrize("workers", ["0", "many"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(
    workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["ray", "--recipe", "x", "--storage", str(tmp_path), "--run", "mine", "--workers", workers])
    assert exit.value.code == 2
    assert "argument --workers" in capsys.readouterr().err


def run(command: str, recipe: Path | str, storage: Path, *options: str) -> int:
    workers = {"ray": ["--workers", "2"], "torchrun": ["--processes", "2"], "local": []}[command]
    return main(
        [command, "--recipe", str(recipe), "--storage", str(storage), "--run", "mine", *workers, *options]
    )


def assert_one_line(capsys: pytest.CaptureFixture[str], expected: str) -> str:
    """The error as the user sees it."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert expected in lines[0]
    return lines[0]
