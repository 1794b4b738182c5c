"""Looks at the rows of a recipe before any worker is requested.

MaxText ends without a reason where a column is missing, and tries for ever where no file fits.
"""

from typing import Any

from maxtext_driver.recipe import DATA_SET, Recipe
from shared.errors import InputError

# The settings with files, and those with the columns that are read of them. The default is MaxText's.
COLUMNS_OF = {"grain_train_files": "train_data_columns", "grain_eval_files": "eval_data_columns"}
DEFAULT_COLUMNS = ["text"]
# The number of rows that are read of a file.
FIRST_ROWS = 1000


def check_rows(recipe: Recipe) -> None:
    """Look at the files and first rows that the recipe names.

    Raises:
        InputError: No file fits, or a file has no such column, or a row has no text.
        PassingError: The Hub does not answer.
    """
    if recipe.maxtext.get("dataset_type") != "grain":
        return
    for key, columns_key in COLUMNS_OF.items():
        # A mixture has patterns with weights: a,0.7;b,0.3
        for part in str(recipe.maxtext.get(key) or "").split(";"):
            if pattern := part.partition(",")[0].strip():
                _on_the_hub_or_here(recipe, key, pattern, columns_key)


def _on_the_hub_or_here(recipe: Recipe, key: str, pattern: str, columns_key: str) -> None:
    data_set = DATA_SET.match(pattern)
    if not data_set:
        _check(recipe, key, pattern, columns_key)
        return
    from shared.hub import read

    read(recipe.sources[data_set[0]], lambda: _check(recipe, key, pattern, columns_key))


def _check(recipe: Recipe, key: str, pattern: str, columns_key: str) -> None:
    from fsspec.core import url_to_fs

    files, place = url_to_fs(pattern)
    names = sorted(files.glob(place))
    if not names:
        raise InputError(f"{key}: no file fits {pattern}; name files that are there")
    if recipe.maxtext.get("grain_file_type") != "parquet":
        return
    wanted = recipe.maxtext.get(columns_key) or DEFAULT_COLUMNS
    columns = [wanted] if isinstance(wanted, str) else [*wanted]
    # Files of one set differ at its ends, if at all.
    for name in dict.fromkeys((names[0], names[-1])):
        _check_file(files, name, columns, columns_key, is_text=_is_text(recipe))


def _is_text(recipe: Recipe) -> bool:
    """Whether rows are texts, and not tokens or conversations."""
    settings = recipe.maxtext
    others = settings.get("use_sft") or settings.get("use_dpo")
    return bool(settings.get("tokenize_train_data", True)) and not others


def _check_file(files: Any, name: str, columns: list[str], columns_key: str, *, is_text: bool) -> None:
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    with files.open(name) as opened:
        try:
            parquet = ParquetFile(opened)
        except ArrowInvalid as error:
            raise InputError(f"{name} is no parquet file: {str(error).splitlines()[0]}") from error
        present = parquet.schema_arrow.names
        if missing := [column for column in columns if column not in present]:
            raise InputError(
                f"{name} has no column {', '.join(missing)}; it has {', '.join(present)}. Set {columns_key}"
            )
        batch = next(parquet.iter_batches(FIRST_ROWS, columns=columns), None)
    rows = batch.to_pylist() if batch else []
    if not rows:
        raise InputError(f"{name} has no rows; name files with rows")
    for number, row in enumerate(rows):
        for column in columns:
            value = row[column]
            if value is None or (is_text and not isinstance(value, str)):
                kind = "nothing" if value is None else type(value).__name__
                raise InputError(
                    f"{name}, row {number} (the first is 0): {column} must be a text, not {kind}; leave "
                    f"such rows out"
                )
