"""A trial tells a wrong result, and a resumed run that differs from one without a stop."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from finetune.settings.recipe import load_recipe
from shared.errors import InputError, PassingError
from trial.compare import compare_published
from trial.processes import Kind, StageError, in_process
from trial.small_model import NoTrial
from trial.stages import STOPPED, WHOLE, difference


@pytest.fixture
def run(sql_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run with adapter and merged model."""
    shutil.copytree(sql_run, tmp_path / "mine")
    return tmp_path / "mine"


def changed(file: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> None:
    """Change every weight of a file."""
    weights = {name: change(name, weight).contiguous() for name, weight in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})


def compare(run: Path, sql_run: Path) -> None:
    compare_published(load_recipe(str(sql_run.parent / "recipe.yaml")), run.parent, run.name)


def test_a_sound_result_is_the_trained_model(run: Path, sql_run: Path) -> None:
    compare(run, sql_run)


def test_a_merge_that_writes_another_model_is_found(run: Path, sql_run: Path) -> None:
    changed(
        run / "model/model.safetensors",
        lambda name, weight: weight.flip(0) if "down_proj" in name else weight,
    )
    with pytest.raises(InputError, match=r"the published model writes something else .* set training.result"):
        compare(run, sql_run)


def test_an_adapter_without_effect_is_found(run: Path, sql_run: Path) -> None:
    changed(run / "adapter/adapter_model.safetensors", lambda _, weight: torch.zeros_like(weight))
    with pytest.raises(InputError, match=r"lora.target_modules: the training changes nothing"):
        compare(run, sql_run)


@pytest.fixture
def two_runs(sql_run: Path, tmp_path: Path) -> Path:
    for name in (STOPPED, WHOLE):
        shutil.copytree(sql_run, tmp_path / name)
    return tmp_path


def test_equal_runs_have_no_difference(two_runs: Path) -> None:
    assert difference(two_runs, "adapter") is None


def test_the_first_step_with_another_figure_is_named(two_runs: Path) -> None:
    file = two_runs / STOPPED / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    next(line for line in lines if "loss" in line and line["step"] == 3)["learning_rate"] = 0.5
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert str(difference(two_runs, "adapter")).startswith("learning_rate at step 3 (0.5, not ")


def test_the_first_weight_that_differs_is_named(two_runs: Path) -> None:
    file = two_runs / STOPPED / "adapter/adapter_model.safetensors"
    changed(file, lambda name, weight: weight * 1.01 if "layers.1." in name else weight)
    assert "layers.1." in str(difference(two_runs, "adapter"))


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (InputError("take another"), Kind.INPUT, "take another"),
        (PassingError("the Hub is down"), Kind.PASSING, "the Hub is down"),
        (ConnectionError("reset"), Kind.PASSING, "ConnectionError: reset (from the network)"),
        (NoTrial("none works"), Kind.NO_TRIAL, "none works"),
        (KeyError("default"), Kind.OTHER, "KeyError: 'default'"),
        (SystemExit(1), Kind.OTHER, "SystemExit: 1"),
    ],
)
def test_an_error_of_a_stage_comes_back_as_what_it_is(
    error: BaseException, kind: Kind, text: str, tmp_path: Path
) -> None:
    with pytest.raises(StageError) as ended:
        in_process(lambda: _raise(error), tmp_path / "log.txt")
    assert (ended.value.kind, str(ended.value)) == (kind, text)


def test_a_stage_that_is_killed_is_no_finding(tmp_path: Path) -> None:
    """As when the node has too little memory: that says nothing of the recipe."""
    with pytest.raises(StageError, match="its process ended with SIGKILL") as ended:
        in_process(lambda: os.kill(os.getpid(), signal.SIGKILL), tmp_path / "log.txt")
    assert ended.value.kind is Kind.NO_TRIAL
