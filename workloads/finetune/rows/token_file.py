"""Keeps the tokens of rows in an Arrow file, which the processes of a node map, and beside the run.

A resume and further nodes read them from the run's folder. An account that may write there must not run code
here. So a file that this module did not write is told and made again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from conversations import day
from conversations.chat_template import STOPS
from finetune.rows.data import tell_left_out
from finetune.rows.store import own_code
from finetune.storage.checkpoint import TOKENS
from finetune.storage.folder import Folder
from shared.errors import InputError, one_line
from shared.files import parsed_json, remove_stale_parts, written_whole

if TYPE_CHECKING:
    import numpy
    from datasets import Dataset

# The label that PyTorch's cross entropy ignores.
NOT_TRAINED = -100
_LIBRARIES = ("tokenizers", "transformers")
_BATCH = 10_000

Batches = Iterator[pyarrow.RecordBatch]


def is_first() -> bool:
    """Whether this is the first process of the run."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class Layout:
    """Columns of a file of tokens, each with a list of numbers for each row.

    Args:
        check: Raises ValueError for rows that this package would not write.
        known: Columns whose numbers are tokens of the model.
    """

    columns: tuple[str, ...]
    check: Callable[[pyarrow.RecordBatch], None]
    known: tuple[str, ...]

    @property
    def schema(self) -> pyarrow.Schema:
        return pyarrow.schema({name: pyarrow.list_(pyarrow.int32()) for name in self.columns})

    def batch(self, *columns: list[list[int]]) -> pyarrow.RecordBatch:
        """Rows as they stand in the file."""
        return pyarrow.record_batch([*columns], schema=self.schema)


def digest(rows: "Dataset", tokenizer: Any, settings: Any) -> str:
    """Digest of all that the tokens of rows depend on: their texts and order, the template and its date."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts = [
        *map(version, _LIBRARIES),
        backend.to_str() if backend else repr((type(tokenizer), sorted(tokenizer.get_vocab().items()))),
        repr(
            (tokenizer.chat_template, sorted(getattr(tokenizer, STOPS, ()), key=repr), day.prompts(tokenizer))
        ),
        repr((settings, sorted(rows[0]))),
    ]
    whole = hashlib.sha256(b"\0".join([*(part.encode() for part in parts), *own_code()]))
    texts = rows.select_columns(["row"]).with_format("arrow")
    for start in range(0, len(texts), _BATCH):
        column = texts[start : start + _BATCH]["row"].combine_chunks()
        _, offsets, values = column.buffers()
        ends = memoryview(offsets).cast("q")[column.offset : column.offset + len(column) + 1]
        whole.update(repr([end - ends[0] for end in ends]).encode())
        whole.update(memoryview(values)[ends[0] : ends[-1]])
    return whole.hexdigest()[:24]


def kept(
    name: str, layout: Layout, make: Callable[[], Batches], beside: Folder | None, vocabulary: int | None
) -> "Dataset":
    """The tokens in the file of that name: on this disk, from beside the run, or made now.

    The first process also writes them beside the run.
    """
    from datasets import Dataset
    from datasets.config import HF_DATASETS_CACHE

    file = Path(HF_DATASETS_CACHE, TOKENS, f"{name}.arrow")
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        remove_stale_parts(file.parent.glob("*.part"))
        with written_whole(file) as part:
            if not (beside and _fetch(beside, name, layout, part, vocabulary)):
                _write(part, layout, make())
    if beside and is_first():
        _keep(beside, name, file)
    return Dataset.from_file(str(file))


def lengths(tokens: "Dataset", column: str) -> "numpy.ndarray":
    """How many tokens each row has in a column."""
    import numpy

    chunks = tokens.data.column(column).chunks
    return numpy.concatenate([chunk.value_lengths() for chunk in chunks])


def fitting(tokens: "Dataset", of_rows: "numpy.ndarray", max_length: int) -> "Dataset":
    """The rows of at most so many tokens. Raises InputError if there is none."""
    kept_rows = (of_rows <= max_length).nonzero()[0]
    left_out = len(tokens) - len(kept_rows)
    if not len(kept_rows):
        raise InputError(f"all {len(tokens)} rows are longer than training.max_length, {max_length} tokens")
    tell_left_out(left_out, len(tokens), f"longer than training.max_length, {max_length} tokens")
    return tokens.select(kept_rows) if left_out else tokens


def _write(file: Path, layout: Layout, batches: Batches) -> None:
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, layout.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _keep(beside: Folder, name: str, file: Path) -> None:
    """Write a file beside the run, unless it is there. Its mark is written last."""
    with suppress(ValueError):
        if beside.read_text(f"{TOKENS}/{name}.json"):
            return
    beside.upload(file, f"{TOKENS}/{name}.arrow")
    beside.write_text(f"{TOKENS}/{name}.json", json.dumps(_mark(file)))


def _fetch(beside: Folder, name: str, layout: Layout, target: Path, vocabulary: int | None) -> bool:
    """Download a file from beside the run. False if there is none, or none that this module wrote."""
    try:
        if not (text := beside.read_text(f"{TOKENS}/{name}.json")):
            return False
        mark = parsed_json(text)
        if not isinstance(mark, dict) or type(mark.get("size")) is not int:
            raise ValueError("its mark has no size")
        beside.download(f"{TOKENS}/{name}.arrow", target, mark["size"])
        if mark != _mark(target):
            raise ValueError("it has other bytes than were saved")
        _check(target, layout, vocabulary)
    except (ValueError, FileNotFoundError, MemoryError, pyarrow.ArrowException) as error:
        print(
            f"{TOKENS}/{name}.arrow in {beside.uri} is damaged: {one_line(error)}; it is made again",
            flush=True,
        )
        if is_first():
            beside.write_text(f"{TOKENS}/{name}.json", "")
        return False
    return True


def _mark(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        return {"size": file.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def _check(file: Path, layout: Layout, vocabulary: int | None) -> None:
    """Raises ValueError, or pyarrow's own, unless a file has tokens of the model in this layout."""
    with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as reader:
        # The library reads types of columns from the metadata, which this module does not write.
        if not reader.schema.equals(layout.schema, check_metadata=True):
            raise ValueError("it has other columns")
        for batch in reader:
            batch.validate(full=True)
            if not len(batch) or any(
                part.null_count for column in batch.columns for part in (column, column.values)
            ):
                raise ValueError("it has rows without tokens")
            for name in layout.known:
                values = batch.column(name).flatten().to_numpy()
                if ((values < 0) | (values >= (vocabulary or values.max(initial=0) + 1))).any():
                    raise ValueError("it has tokens that the model does not know")
            layout.check(batch)


def _check_rows(batch: pyarrow.RecordBatch) -> None:
    import numpy

    tokens, labels = batch.columns
    if not tokens.offsets.equals(labels.offsets):
        raise ValueError("its tokens and labels are not of one length")
    values, wanted = tokens.flatten().to_numpy(), labels.flatten().to_numpy()
    is_trained = wanted != NOT_TRAINED
    if (wanted[is_trained] != values[is_trained]).any():
        raise ValueError("its labels are not its tokens")
    starts = tokens.offsets.to_numpy()[:-1] - tokens.offsets[0].as_py()
    lengths = tokens.value_lengths().to_numpy()
    if not lengths.all() or not numpy.logical_or.reduceat(is_trained, starts).all():
        raise ValueError("it has rows of which nothing is trained")


# The tokens of each row, and the same as labels where they are trained.
ROWS = Layout(("input_ids", "labels"), _check_rows, known=("input_ids",))
