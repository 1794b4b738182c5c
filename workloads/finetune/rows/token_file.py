"""Keeps the tokens of rows in an Arrow file, which the processes of a node map, and beside the run.

A resume and further nodes read them from the run's folder. An account that may write there must not run code
here. So a file that this module did not write is told and made again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from conversations import day
from conversations.chat_template import STOPS
from finetune.rows.store import own_code
from finetune.storage.checkpoint import TOKENS
from finetune.storage.folder import Folder
from shared.errors import one_line
from shared.files import remove_stale_parts, written_whole

if TYPE_CHECKING:
    from datasets import Dataset

# The label that PyTorch's cross entropy ignores.
NOT_TRAINED = -100
# The tokens of each row, and the same as labels where they are trained.
_SCHEMA = pyarrow.schema({name: pyarrow.list_(pyarrow.int32()) for name in ("input_ids", "labels")})
_LIBRARIES = ("tokenizers", "transformers")
_BATCH = 10_000

Batches = Iterator[pyarrow.RecordBatch]


def is_first() -> bool:
    """Whether this is the first process of the run."""
    return os.environ.get("RANK", "0") == "0"


def batch_of(tokens: list[list[int]], labels: list[list[int]]) -> pyarrow.RecordBatch:
    """Rows as they stand in the file."""
    return pyarrow.record_batch([tokens, labels], schema=_SCHEMA)


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


def kept(name: str, make: Callable[[], Batches], beside: Folder | None, vocabulary: int | None) -> "Dataset":
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
            if not (beside and _fetch(beside, name, part, vocabulary)):
                _write(part, make())
    if beside and is_first():
        _keep(beside, name, file)
    return Dataset.from_file(str(file))


def _write(file: Path, batches: Batches) -> None:
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, _SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _keep(beside: Folder, name: str, file: Path) -> None:
    """Write a file beside the run, unless it is there. Its mark is written last."""
    with suppress(ValueError):
        if beside.read_text(f"{TOKENS}/{name}.json"):
            return
    beside.upload(file, f"{TOKENS}/{name}.arrow")
    beside.write_text(f"{TOKENS}/{name}.json", json.dumps(_mark(file)))


def _fetch(beside: Folder, name: str, target: Path, vocabulary: int | None) -> bool:
    """Download a file from beside the run. False if there is none, or none that this module wrote."""
    try:
        if not (text := beside.read_text(f"{TOKENS}/{name}.json")):
            return False
        mark = json.loads(text)
        if not isinstance(mark, dict) or type(mark.get("size")) is not int:
            raise ValueError("its mark has no size")
        beside.download(f"{TOKENS}/{name}.arrow", target, mark["size"])
        if mark != _mark(target):
            raise ValueError("it has other bytes than were saved")
        _check(target, vocabulary)
    except (ValueError, FileNotFoundError, RecursionError, MemoryError, pyarrow.ArrowException) as error:
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


def _check(file: Path, vocabulary: int | None) -> None:
    """Raises ValueError, or pyarrow's own, unless a file has tokens of the model and their labels."""
    with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as reader:
        # The library reads types of columns from the metadata, which this module does not write.
        if not reader.schema.equals(_SCHEMA, check_metadata=True):
            raise ValueError("it has other columns")
        for batch in reader:
            batch.validate(full=True)
            _check_rows(batch, vocabulary)


def _check_rows(batch: pyarrow.RecordBatch, vocabulary: int | None) -> None:
    import numpy

    tokens, labels = (batch.column(name) for name in _SCHEMA.names)
    parts = (tokens, labels, tokens.values, labels.values)
    if not len(batch) or any(part.null_count for part in parts):
        raise ValueError("it has rows without tokens")
    if not tokens.offsets.equals(labels.offsets):
        raise ValueError("its tokens and labels are not of one length")
    values, wanted = tokens.flatten().to_numpy(), labels.flatten().to_numpy()
    is_trained = wanted != NOT_TRAINED
    if ((values < 0) | (values >= (vocabulary or values.max(initial=0) + 1))).any():
        raise ValueError("it has tokens that the model does not know")
    if (wanted[is_trained] != values[is_trained]).any():
        raise ValueError("its labels are not its tokens")
    starts = tokens.offsets.to_numpy()[:-1] - tokens.offsets[0].as_py()
    lengths = tokens.value_lengths().to_numpy()
    if not lengths.all() or not numpy.logical_or.reduceat(is_trained, starts).all():
        raise ValueError("it has rows of which nothing is trained")
