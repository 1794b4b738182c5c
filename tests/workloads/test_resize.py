"""A run goes on with another number of processes: its steps keep their rows, or it says why it cannot."""

import re
import shutil
from pathlib import Path

import pytest
from launches import edited, local, torchrun
from outcomes import losses

from finetune.__main__ import main
from finetune.settings.recipe import Recipe, load_recipe
from finetune.storage.checkpoint import RunFolder
from rehearsal.running_pods.tiny import make_recipe
from shared.errors import InputError


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


def sized(steps: int, batch: int) -> list[str]:
    """Settings of a step: forward passes, and rows of each."""
    return [f"training.accumulation_steps={steps}", f"training.batch_size={batch}"]


def begun(recipe: Path, tmp_path: Path, workers: int, *overrides: str) -> tuple[RunFolder, Recipe]:
    """A run that began with that number of workers."""
    run, trained = RunFolder(str(tmp_path), "mine"), load_recipe(str(recipe), overrides)
    run.claim(trained, workers)
    return run, trained


# Forward passes and rows of each, for a number of processes, and the same for another number.
SHARES = [
    ((1, 1), 16, 8, (2, 1)),
    ((4, 1), 8, 16, (2, 1)),
    ((3, 1), 4, 6, (2, 1)),
    ((2, 1), 8, 8, (2, 1)),
    ((1, 1), 2, 1, (2, 1)),
    # Batches become smaller where there are too few of them, and never larger.
    ((1, 2), 8, 16, (1, 1)),
    ((2, 4), 8, 32, (1, 2)),
    ((3, 4), 8, 16, (2, 3)),
    ((1, 2), 16, 8, (2, 2)),
]


@pytest.mark.parametrize(("before", "workers", "now", "after"), SHARES)
def test_a_step_keeps_its_rows_with_other_workers(
    before: tuple[int, int], workers: int, now: int, after: tuple[int, int], recipe: Path, tmp_path: Path
) -> None:
    run, trained = begun(recipe, tmp_path, workers, *sized(*before))
    assert run.claim(trained, now, resize=True) is False
    shared = run.resized(trained, now).training
    assert (shared.accumulation_steps, shared.batch_size) == after
    assert bool(run.sizes(now)) == (workers != now)
    # The run keeps the number with which it began.
    assert run.claim(trained, workers) is False


@pytest.mark.parametrize(("before", "meant", "workers", "after"), SHARES)
def test_a_batch_that_is_meant_for_other_workers_is_shared_and_the_record_keeps_the_recipe(
    before: tuple[int, int], meant: int, workers: int, after: tuple[int, int], recipe: Path, tmp_path: Path
) -> None:
    run, trained = RunFolder(str(tmp_path), "mine"), load_recipe(str(recipe), sized(*before))
    for _ in ("begins", "goes on"):
        assert run.claim(trained, workers, batch_for=meant) is False
        shared = run.resized(trained, workers, meant).training
        assert (shared.accumulation_steps, shared.batch_size) == after
    # So it can go on with any number that can share a step, and again with the first.
    assert run.claim(trained, meant, resize=True, batch_for=meant) is False
    assert run.resized(trained, meant, meant) == trained


def test_a_run_whose_workers_cannot_share_a_step_does_not_begin(recipe: Path, tmp_path: Path) -> None:
    run, trained = RunFolder(str(tmp_path), "mine"), load_recipe(str(recipe), sized(1, 2))
    with pytest.raises(InputError, match=r"^a step has 8 x 1 batches of 2, which 24 processes cannot share"):
        run.claim(trained, 24, batch_for=8)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("before", "now", "sharding", "problem"),
    [
        (16, 15, "none", r"cannot go on with 15: a step has 16 x 1 batches of 1, which 15 processes cannot"),
        (8, 16, "none", r"cannot go on with 16: a step has 8 x 1 batches of 1, which 16 processes cannot"),
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
    with pytest.raises(InputError, match=r"the setting resume: resize or --resize takes others"):
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
        "run mine began with 2 processes and goes on with 1: a step has the same rows, except the last one "
        "of an epoch, and losses may differ from here"
    ]
    assert losses(tmp_path / "mine") == pytest.approx(losses(tmp_path / "undisturbed"), abs=1e-4)


def test_two_processes_share_the_batch_of_one(recipe: Path, warm: str, tmp_path: Path) -> None:
    settings = [f"--set={setting}" for setting in sized(1, 2)]
    assert main([*local(recipe, tmp_path, "alone"), *settings]) == 0
    more = [*settings, "--batch-for=1"]
    entry = {"arguments": [*local(recipe, tmp_path, "shared"), *more]}
    code, output = torchrun(warm, recipe, tmp_path, entry, more=more)
    assert code == 0, output
    assert losses(tmp_path / "shared") == pytest.approx(losses(tmp_path / "alone"), abs=1e-4)


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
