"""Rows of a data set as conversations, split into training and test rows. Pictures are decoded when read."""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from conversations import thinking
from conversations.columns import RowError
from conversations.turns import TEXT
from finetune.rows.pictures import decode
from finetune.rows.sources import BATCH, first_columns, reading, sources_of
from finetune.rows.store import Unusable, check_columns, stored
from finetune.settings.sections import Data
from finetune.storage.data_files import at_hand
from shared.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

# How many columns a line names.
_SHOWN = 12
# The name of a split, such as train in train[:50%].
_SPLIT = re.compile(r"[\w.-]+")


def check_data(data: Data) -> None:
    """Check the first rows without downloading the rest. Raises InputError if the recipe cannot use them."""
    for part in at_hand(data).parts:
        _check_part(part)


def _check_part(data: Data) -> None:
    if data.hook:
        return  # it makes the columns
    if not data.files and data.on_hub:
        present = first_columns(data)
    else:
        sources = sources_of(data, _base_splits(data)[0])
        present = [*_first_keys(data, sources[0])] if sources else None
    if not present:
        raise InputError(f"data set {data.name} has no rows in split {data.split}")
    # A column with tools may begin late.
    check_columns(data, [*present, *filter(None, [data.tools])], rows=1)


def load_conversations(data: Data, seed: int) -> "tuple[Dataset, Dataset | None]":
    """The training rows and the test rows, if any, the same in every process.

    A row has `prompt`, `completion` (the last reply) and, with pictures, `images`. They are computed when the
    row is read. Rows that cannot be trained are left out. Raises InputError when they are too many, and when
    too few rows remain.
    """
    from datasets import concatenate_datasets

    data = at_hand(data)
    parts = [_usable(part) for part in data.parts]
    dataset = concatenate_datasets(parts)
    wanted = (data.limit or 1) + data.test_rows
    if len(dataset) < wanted:
        raise InputError(
            f"data set {data.name} has {len(dataset)} usable rows in split {data.split}, "
            f"and the recipe takes {wanted}"
        )
    rows = data.limit or len(dataset) - data.test_rows
    if data.sets:
        return _mixed(data, dataset, [*map(len, parts)], rows, seed)
    if data.limit or data.test_rows:
        dataset = dataset.shuffle(seed=seed)
    dataset = dataset.with_transform(partial(_as_conversations, data))
    test = dataset.select(range(rows, rows + data.test_rows)) if data.test_rows else None
    return dataset.select(range(rows)), test


def _mixed(
    data: Data, dataset: "Dataset", sizes: list[int], rows: int, seed: int
) -> "tuple[Dataset, Dataset | None]":
    """The rows of several data sets, those for training as often as the weight of their set says."""
    import numpy

    order = numpy.random.default_rng(seed).permutation(len(dataset))
    ends = numpy.cumsum(sizes)
    set_of = numpy.searchsorted(ends, order[:rows], side="right")
    chosen: list[int] = []
    for number, part in enumerate(data.sets):
        own = order[:rows][set_of == number].tolist()
        whole, share = divmod(part.weight, 1)
        chosen += own * int(whole) + own[: round(share * len(own))]
    tell(
        f"{len(chosen):,} rows an epoch from {len(data.sets)} data sets of {', '.join(map(str, sizes))} rows"
    )
    dataset = dataset.with_transform(partial(_as_conversations, data))
    test = order[rows : rows + data.test_rows].tolist()
    return dataset.select(chosen), dataset.select(test) if test else None


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the prompt's columns in a row without a format."""
    return json.loads(row["row"])["values"]


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
    thinks = any(rows.with_format(None).select_columns(["thinks"])["thinks"])
    return thinking.settle_for(processor, thinks)


def _first_keys(data: Data, source: Any) -> dict[str, None]:
    """The columns of the first rows. A row may lack a key that others have."""
    keys = dict[str, None]()
    with reading(data, source):
        for row in islice(source.rows(), BATCH):
            keys.update(dict.fromkeys(row))
    return keys


def _usable(data: Data) -> "Dataset":
    """The rows of a split, or of a part of it, that can be trained."""
    from datasets import ReadInstruction, concatenate_datasets

    splits = {split: stored(data, split) for split in _base_splits(data)}
    try:
        counts: Any = {split: rows.count for split, rows in splits.items()}
        parts = ReadInstruction.from_spec(data.split).to_absolute(counts)
    except (ValueError, AssertionError) as error:
        raise InputError(f"data.split {data.split} is no part of data set {data.name}: {error}") from error
    chosen, count, unusable = [], 0, list[Unusable]()
    for part in parts:
        rows = splits[part.splitname]
        begin, end = part.from_ or 0, rows.count if part.to is None else part.to
        numbers = rows.rows.select_columns(["at"])["at"]
        chosen.append(rows.rows.select([at for at, number in enumerate(numbers) if begin <= number < end]))
        unusable += [row for row in rows.unusable if begin <= row.at < end]
        count += end - begin
    _tell_unusable(data, unusable, count)
    if unread := list(dict.fromkeys(name for rows in splits.values() for name in rows.unread)):
        more = f" and {len(unread) - _SHOWN} more" if len(unread) > _SHOWN else ""
        names = ", ".join(name or "one without a name" for name in unread[:_SHOWN])
        tell(f"columns of {data.title} that are not trained: {names}{more}")
    return concatenate_datasets(chosen)


def _tell_unusable(data: Data, unusable: list[Unusable], count: int) -> None:
    """Print how many rows are left out, and why. Raises InputError if the recipe allows fewer."""
    if unusable and len(unusable) > data.most_left_out * count:
        first = unusable[0]
        raise InputError(
            f"data set {data.name}, row {first.at} (the first is 0): {first.detail}; {len(unusable):,} of "
            f"{count:,} rows cannot be trained. Correct them, or raise data.most_left_out, the share that a "
            f"run may leave out, above {data.most_left_out}"
        )
    for reason, rows in Counter(row.reason for row in unusable).items():
        first = next(row for row in unusable if row.reason == reason)
        detail = "" if first.detail == reason else f" (row {first.at}: {first.detail})"
        tell_left_out(rows, count, f"{reason}{detail}")


def _base_splits(data: Data) -> list[str]:
    names = [_SPLIT.match(part.strip()) for part in data.split.split("+")]
    return list(dict.fromkeys(name[0] for name in names if name)) or [data.split]


def _as_conversations(data: Data, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Stored rows, by column, as conversations, by column."""
    read = [json.loads(row) for row in rows["row"]]
    if data.text:
        return {TEXT: [row["turns"][0]["content"] for row in read]}
    columns: dict[str, list[Any]] = {
        "prompt": [row["turns"][:-1] for row in read],
        "completion": [row["turns"][-1:] for row in read],
    }
    if data.rejected:
        columns["rejected"] = [[row["rejected"]] for row in read]
    if data.tools:
        columns["tools"] = [row["tools"] for row in read]
    if data.image:
        columns["images"] = [[_decoded(picture) for picture in pictures] for pictures in rows["pictures"]]
    return columns


def _decoded(picture: dict[str, Any]) -> Any:
    try:
        return decode(picture)
    except RowError as error:
        # It was whole when the run looked at the rows.
        raise InputError(str(error)) from error
