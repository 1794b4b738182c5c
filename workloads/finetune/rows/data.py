"""Rows of a data set as conversations, split into training and test rows. Pictures are decoded when read."""

import os
from collections.abc import Callable
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finetune.rows.thinking import settle
from finetune.settings.conversations import have_thoughts, is_complete, to_conversations
from finetune.settings.sections import Data
from finetune.storage.data_files import at_hand
from shared.errors import InputError, one_line

if TYPE_CHECKING:
    from datasets import Dataset


# Rows that are read together.
BATCH = 1000


def check_data(data: Data) -> None:
    """Check the first row without downloading the rest. Raises InputError when the recipe cannot use it."""
    from datasets import load_dataset

    data = at_hand(data)
    row = _load(data, lambda: next(iter(load_dataset(**_load_arguments(data), streaming=True)), None))
    if row is None:
        raise InputError(f"data set {data.name} has no rows in split {data.split}")
    _check_columns(data, list(row))


def load_conversations(data: Data, seed: int) -> "tuple[Dataset, Dataset | None]":
    """The training rows and the test rows, if any, the same in every process.

    A row has `prompt`, `completion` (the last reply) and, with pictures, `images`. They are computed when the
    row is read. Rows in which a text that the recipe needs is empty are left out. Raises InputError when too
    few remain, and for a row that is not a text or not a conversation.
    """
    from datasets import load_dataset

    data = at_hand(data)
    dataset = _load(data, lambda: load_dataset(**_load_arguments(data)))
    _check_columns(data, dataset.column_names)
    dataset = _without_gaps(data, dataset.select_columns(data.columns))
    wanted = (data.rows or 1) + data.test_rows
    if len(dataset) < wanted:
        raise InputError(
            f"data set {data.name} has {len(dataset)} usable rows in split {data.split}, "
            f"and the recipe takes {wanted}"
        )
    if data.rows or data.test_rows:
        dataset = dataset.shuffle(seed=seed)
    dataset = dataset.with_transform(partial(to_conversations, data))
    rows = data.rows or len(dataset) - data.test_rows
    test = dataset.select(range(rows, rows + data.test_rows)) if data.test_rows else None
    return dataset.select(range(rows)), test


def tell_left_out(rows: int, of: int, why: str) -> None:
    """Print how many rows are left out, if any, and why."""
    if rows:
        tell(f"{rows:,} of {of:,} rows are left out: {why}")


def tell(line: str) -> None:
    """Print a line about the rows. Only the first process prints."""
    if os.environ.get("RANK", "0") == "0":
        print(line, flush=True)


def settle_for(data: Data, rows: "Dataset", processor: Any) -> str | None:
    """Have a processor's chat template ask as the rows answer: with thoughts if they have some.

    Returns a line about it, or None if the model's own template asks so.
    """
    if data.text:
        return None  # plain texts ask nothing
    thinks = _rows_think(data, rows)
    if not settle(processor, thinks):
        return None
    have, how = ("thoughts", "with thoughts") if thinks else ("no thoughts", "without thoughts")
    return f"the rows have {have}: the run trains {how}, and the chat template of its result asks so"


def _rows_think(data: Data, rows: "Dataset") -> bool:
    """Whether one of the replies that are trained has thoughts before it."""
    texts = rows.with_format(None).select_columns(sorted(set(data.texts)))
    return any(have_thoughts(data, batch) for batch in texts.iter(BATCH))


def _without_gaps(data: Data, dataset: "Dataset") -> "Dataset":
    """The rows in which no text is empty."""
    whole, at = list[int](), 0
    try:
        for row in dataset.select_columns(sorted(set(data.texts))):
            if is_complete(data, row):
                whole.append(at)
            at += 1
    except ValueError as error:  # also what is not UTF-8
        raise InputError(f"data set {data.name}, row {at} (the first is 0): {one_line(error)}") from error
    tell_left_out(len(dataset) - len(whole), len(dataset), "a text that the recipe needs is empty")
    return dataset.select(whole)


def _load(data: Data, action: Callable[[], Any]) -> Any:
    from datasets.exceptions import DatasetGenerationError, DatasetsError

    from shared.hub import read

    if not data.files and Path(data.name).is_absolute() and not Path(data.name).exists():
        raise InputError(f"data set {data.name} does not exist")

    def load() -> Any:
        try:
            return action()
        except DatasetGenerationError as error:
            # Its own message says nothing.
            reason = error.__cause__ or error
        raise reason

    try:
        return read(data, load)
    except StopIteration as error:
        raise InputError(f"data set {data.name} has an empty file in split {data.split}") from error
    except DatasetsError as error:
        raise InputError(
            f"data set {data.name}, split {data.split}, cannot be loaded: {one_line(error)}"
        ) from error


def _load_arguments(data: Data) -> dict[str, Any]:
    if data.files:
        kind = "parquet" if data.files[0].endswith("parquet") else "json"
        # The loader takes brackets and stars of a name for a pattern.
        files = [escape(file) for file in data.files]
        return {"path": kind, "data_files": files, "split": data.split}
    return {"path": data.name, "name": data.config, "split": data.split, "revision": data.revision}


def _check_columns(data: Data, present: list[str]) -> None:
    missing = [column for column in data.columns if column not in present]
    if missing:
        raise InputError(
            f"data set {data.name} has no column {', '.join(missing)}; it has {', '.join(present)}"
        )
