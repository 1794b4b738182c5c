"""A run goes on with another number of processes: its steps keep their rows, or it says why it cannot."""

import re
import shutil
from pathlib import Path

import pytest
from launches import edited, local, torchrun
from outcomes import losses

from ending.errors import InputError
from finetune.__main__ import main
from finetune.checkpoint import RunFolder
from finetune.recipe import Recipe, load_recipe
from rehearsal.run.tiny import make_recipe


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps of two packs of rows, without dropout, whose masks differ between processes."""
    path = make_recipe(
        tmp_path_factory.mktemp("recipe") / "recipe.yaml",
        tiny,
        "gemma-3-12b-text-to-sql",
        batch_size=1,
        learning_rate=0.001,
    )
    return edited(path, "steady.yaml", lora={"dropout": 0}, training={"sharding": "none"})


def begun(recipe: Path, tmp_path: Path, workers: int, *overrides: str) -> tuple[RunFolder, Recipe]:
    """A run that began with that number of workers."""
    run, trained = RunFolder(str(tmp_path), "mine"), load_recipe(str(recipe), overrides)
    run.claim(trained, workers)
    return run, trained


@pytest.mark.parametrize(
    ("steps", "before", "now", "scaled"),
    [(1, 16, 8, 2), (4, 8, 16, 2), (3, 4, 6, 2), (2, 8, 8, 2), (1, 2, 1, 2)],
)
def test_a_step_keeps_its_rows_with_other_workers(
    steps: int, before: int, now: int, scaled: int, recipe: Path, tmp_path: Path
) -> None:
    run, trained = begun(recipe, tmp_path, before, f"training.accumulation_steps={steps}")
    assert run.claim(trained, now, resize=True) is False
    assert run.resized(trained, now).training.accumulation_steps == scaled
    assert bool(run.sizes(now)) == (before != now)
    # The run keeps the number with which it began.
    assert run.claim(trained, before) is False


@pytest.mark.parametrize(
    ("before", "now", "sharding", "problem"),
    [
        (16, 15, "none", r"cannot go on with 15: a step has 16 x 1 batches, which 15 cannot share equally"),
        (8, 16, "none", r"cannot go on with 16: a step has 8 x 1 batches, which 16 cannot share equally"),
        (8, 1, "fsdp2", r"cannot go on with 1: with training.sharding one process and several save in"),
    ],
)
def test_workers_that_cannot_share_a_step_are_refused_in_one_line(
    before: int, now: int, sharding: str, problem: str, recipe: Path, tmp_path: Path
) -> None:
    run, trained = begun(recipe, tmp_path, before, f"training.sharding={sharding}")
    with pytest.raises(InputError, match=f"^run mine began with {before} processes and {problem}") as caught:
        run.claim(trained, now, resize=True)
    assert "\n" not in str(caught.value)


def test_without_the_option_other_workers_are_refused(recipe: Path, tmp_path: Path) -> None:
    run, trained = begun(recipe, tmp_path, 16)
    with pytest.raises(InputError, match="was started with another workers"):
        run.claim(trained, 8)


def test_a_run_of_two_processes_goes_on_with_one(
    recipe: Path, warm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = torchrun(
        warm,
        recipe,
        tmp_path,
        {"arguments": local(recipe, tmp_path, "undisturbed")},
        {"arguments": local(recipe, tmp_path, "mine"), "terminate": {"rank": 0, "step": 3}},
    )
    assert code == 143, output
    shutil.copytree(tmp_path / "mine", tmp_path / "exact")
    assert main(local(recipe, tmp_path, "exact")) == 2
    capsys.readouterr()
    assert main([*local(recipe, tmp_path, "mine"), "--resize"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if re.search(r"\d processes", line)]
    assert re.search("1 processes, from step 3", lines[0])
    assert lines[1:] == [
        "run mine began with 2 processes and goes on with 1: a step has the same rows, and losses may differ "
        "from here"
    ]
    assert losses(tmp_path / "mine") == pytest.approx(losses(tmp_path / "undisturbed"), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("lora", ["lora.rank=8", "lora=null"], ids=["adapter", "all weights"])
def test_shards_load_at_another_number_of_processes(
    lora: str, recipe: Path, warm: str, tmp_path: Path
) -> None:
    """Two processes begin, which take two packs each. Four go on."""
    settings = [f"--set={lora}", "--set=training.sharding=fsdp2", "--set=training.accumulation_steps=2"]
    code, output = torchrun(
        warm,
        recipe,
        tmp_path,
        {"arguments": [*local(recipe, tmp_path, "undisturbed"), *settings]},
        {"arguments": [*local(recipe, tmp_path, "mine"), *settings], "terminate": {"rank": 0, "step": 2}},
        more=settings,
    )
    assert code == 143, output
    more = [*settings, "--resize"]
    entry = {"arguments": [*local(recipe, tmp_path, "mine"), *more]}
    code, output = torchrun(warm, recipe, tmp_path, entry, more=more, processes=4)
    assert code == 0, output
    assert "goes on with 4" in output
    assert losses(tmp_path / "mine") == pytest.approx(losses(tmp_path / "undisturbed"), abs=1e-4)
