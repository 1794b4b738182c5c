"""Looks at the rows of a recipe before any worker is requested.

MaxText ends without a reason where a column is missing, and tries for ever where no file fits.
"""

from functools import partial
from typing import Any

from maxtext_driver.recipe import TRAINED, Recipe, RowFiles
from shared.errors import InputError

# The number of rows that are read of a file.
FIRST_ROWS = 1000


def check_rows(recipe: Recipe, chips: int) -> None:
    """Look at the files and first rows that the recipe names.

    Args:
        chips: Devices that the batch of a step is divided over.

    Raises:
        InputError: No file fits, or a file has no such column, or a row has no text. Or the rows are too few
            for the steps, as far as their number says it.
        PassingError: The Hub does not answer.
    """
    for files in recipe.row_files:
        if files.source is None:
            _check(recipe, files, chips)
        else:
            from shared.hub import read

            read(files.source, partial(_check, recipe, files, chips))


def _check(recipe: Recipe, files: RowFiles, chips: int) -> None:
    from fsspec.core import url_to_fs

    system, place = url_to_fs(files.pattern)
    names = sorted(system.glob(place))
    if not names:
        raise InputError(f"{files.key}: no file fits {files.pattern}; name files that are there")
    if not files.columns:
        return
    # Files of one set differ at its ends, if at all.
    for name in dict.fromkeys((names[0], names[-1])):
        _check_file(system, name, files, recipe)
    if files.key == TRAINED and _is_text(recipe) and recipe.maxtext.get("use_truncation", True):
        _check_number(system, names, recipe, chips)


def _check_number(system: Any, names: list[str], recipe: Recipe, chips: int) -> None:
    """Raises InputError when there are fewer rows than sequences in all steps.

    A row becomes one sequence at most, since MaxText truncates it. Packing makes fewer.
    """
    batch, epochs, rows = recipe.batch_of(chips), recipe.epochs, 0
    for name in names:
        rows += _number_of_rows(system, name)
        if rows * epochs >= recipe.steps * batch:
            return
    raise InputError(
        f"{rows:,} rows are enough for at most {int(rows * epochs / batch):,} of {recipe.steps:,} steps, "
        f"which take {batch:,} sequences each: set fewer steps, or a higher num_epoch than {epochs} to "
        "repeat the rows, or name more files"
    )


def _number_of_rows(system: Any, name: str) -> int:
    from pyarrow.parquet import ParquetFile

    with system.open(name) as opened:
        return ParquetFile(opened).metadata.num_rows


def _is_text(recipe: Recipe) -> bool:
    """Whether rows are texts, and not tokens or conversations."""
    return bool(recipe.maxtext.get("tokenize_train_data", True)) and not recipe.of_conversations


def _check_file(system: Any, name: str, files: RowFiles, recipe: Recipe) -> None:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    columns = [*files.columns]
    with system.open(name) as opened:
        try:
            parquet = ParquetFile(opened)
        except ArrowInvalid as error:
            raise InputError(f"{name} is no parquet file: {str(error).splitlines()[0]}") from error
        present = parquet.schema_arrow.names
        if missing := [column for column in columns if column not in present]:
            raise InputError(
                f"{name} has no column {', '.join(missing)}; it has {', '.join(present)}. "
                f"Set {files.columns_key}"
            )
        batch = next(parquet.iter_batches(FIRST_ROWS, columns=columns), None)
    rows = batch.to_pylist() if batch else []
    if not rows:
        raise InputError(f"{name} has no rows; name files with rows")
    if recipe.of_conversations:
        return  # All of them are read before the workers start.
    is_text = _is_text(recipe)
    for number, row in enumerate(rows):
        for column in columns:
            value = row[column]
            if value is None or (is_text and not isinstance(value, str)):
                kind = "nothing" if value is None else type(value).__name__
                raise InputError(
                    f"{name}, row {number} (the first is 0): {column} must be a text, not {kind}; leave "
                    f"such rows out"
                )
