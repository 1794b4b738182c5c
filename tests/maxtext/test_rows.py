"""Rows that cannot be trained are told before any worker is requested."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from maxtext_driver import ray_driver
from maxtext_driver.recipe import load_recipe
from maxtext_driver.rows import check_rows
from maxtext_driver.run_folder import Placement, RunFolder
from shared.errors import InputError
from tests.maxtext import tiny

WORDS = ["the cat sat on a mat"] * 40


CONVERSATIONS = {"use_sft": True, "load_parameters_path": "hf://me/model"}


def write(folder: Path, *tables: dict[str, Any]) -> None:
    for number, table in enumerate(tables):
        pyarrow.parquet.write_table(pyarrow.table(table), folder / f"rows-{number}.parquet")


def recipe_of(folder: Path, **settings: Any) -> Path:
    data = {
        "dataset_type": "grain",
        "grain_file_type": "parquet",
        "grain_train_files": str(folder / "rows-*.parquet"),
    }
    return tiny.make_recipe(folder / "recipe.yaml", **{**data, **settings})


FAULTS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "another column": (
        [{"content": WORDS}],
        {},
        "has no column text; it has content. Set train_data_columns",
    ),
    "another column at the end": (
        [{"text": WORDS}, {"content": WORDS}],
        {},
        "rows-1.parquet has no column text",
    ),
    "rows without text": (
        [{"text": [*WORDS, None]}],
        {},
        "row 40 (the first is 0): text must be a text, not nothing",
    ),
    "numbers": ([{"text": [1, 2]}], {}, "row 0 (the first is 0): text must be a text, not int"),
    "no rows": ([{"text": pyarrow.array([], pyarrow.string())}], {}, "has no rows"),
    "no file": ([], {}, "grain_train_files: no file fits"),
    "no file to evaluate": (
        [{"text": WORDS}],
        {"grain_eval_files": "/nowhere/*.parquet"},
        "grain_eval_files: no file fits /nowhere/*.parquet",
    ),
    "one of a mixture": (
        [{"text": WORDS}],
        {"grain_train_files": "/nowhere/a*,0.5;/nowhere/b*,0.5", "grain_file_type": "arrayrecord"},
        "no file fits /nowhere/a*",
    ),
    "no such column": (
        [{"text": WORDS}],
        {"train_data_columns": ["body"]},
        "has no column body; it has text",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_that_cannot_be_trained_are_told_with_their_place(fault: str, tmp_path: Path) -> None:
    tables, settings, words = FAULTS[fault]
    write(tmp_path, *tables)
    with pytest.raises(InputError) as refusal:
        check_rows(load_recipe(str(recipe_of(tmp_path, **settings))), 1)
    assert words in str(refusal.value)


@pytest.mark.parametrize("settings", [{"num_epoch": 5}, {"use_truncation": False}, {"steps": 5}])
def test_too_few_rows_for_the_steps_are_told_unless_they_are_repeated_or_cut(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """Twelve steps take two rows on each of two devices."""
    write(tmp_path, *([{"text": WORDS[:5]}] * 2), {"text": WORDS[:1]})
    message = "11 rows are enough for at most 2 of 12 steps, which take 4 sequences each: set fewer steps, or"
    with pytest.raises(InputError, match=message):
        check_rows(load_recipe(str(recipe_of(tmp_path))), 2)
    check_rows(load_recipe(str(recipe_of(tmp_path, **{**settings, "per_device_batch_size": 1}))), 2)


def test_a_file_that_is_cut_short_is_told(tmp_path: Path) -> None:
    (tmp_path / "rows-0.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="is no parquet file"):
        check_rows(load_recipe(str(recipe_of(tmp_path))), 1)


@pytest.mark.parametrize(
    ("tables", "settings"),
    [
        ([{"text": WORDS}] * 3, {}),
        ([{"text": [[1, 2], [3]]}], {"tokenize_train_data": False}),
        (
            [{"messages": [[{"role": "user", "content": "q"}]]}],
            CONVERSATIONS,
        ),
        ([], {"dataset_type": "synthetic"}),
    ],
)
def test_rows_that_can_be_trained_pass(
    tables: list[dict[str, Any]], settings: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, *tables)
    check_rows(load_recipe(str(recipe_of(tmp_path, **settings))), 1)


def test_no_worker_is_requested_for_rows_that_cannot_be_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("Ray is started")

    monkeypatch.setattr(ray_driver.ray, "init", refuse)
    recipe = load_recipe(str(recipe_of(tmp_path)))
    with pytest.raises(InputError, match="no file fits"):
        ray_driver.run_on_ray(recipe, RunFolder(tmp_path, "r", ""), Placement(workers=1))
