"""Where rows come from: files in the forms that people have, data sets of the Hub, and directories."""

import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from conversations.reading import NAMES, FileError, columns_twice, read_rows
from finetune.settings.sections import Data
from shared.errors import InputError, one_line

# Rows of parquet that are read together.
BATCH = 1000
# Loaders of the library whose files are read here, so that no type is guessed.
_TEXTS = ("json", "csv", "parquet")
_ROW_FILE = re.compile(NAMES)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows of one split.

    Args:
        title: The file's name or the data set's, for messages.
        rows: Returns the rows as they stand there.
        folder: Folder at which paths of pictures begin.
        columns: Returns all columns, if `rows` reads some of them alone.
    """

    title: str
    rows: Callable[[], Iterator[dict[str, Any]]]
    folder: Path = field(default=Path())
    columns: Callable[[], Collection[str]] = tuple


def sources_of(data: Data, split: str) -> list[Source]:
    """The sources of a split of a data set whose files are at hand, in order.

    Raises InputError when there is none.
    """
    if data.files:
        if split != "train":
            raise InputError(f"data set {data.name} has no split {split}: files are the split train")
        return [of_file(data, Path(file), Path(file).name) for file in data.files]
    return _load(data, lambda: _of_data_set(data, split))


@contextmanager
def reading(data: Data, source: Source) -> Generator[None]:
    """Around code that reads rows. Raises InputError, with the file, when it cannot be read."""
    try:
        yield
    except (FileError, UnicodeError) as error:
        raise InputError(f"data set {data.title}: {source.title} {error}") from error


def first_columns(data: Data) -> list[str] | None:
    """The columns of a data set that is not on this disk, None if it has no rows. Downloads no whole file."""
    from datasets import load_dataset

    def first() -> Any:
        rows = load_dataset(
            data.name, data.config, revision=data.revision, split=data.split.partition("[")[0], streaming=True
        )
        return next(iter(rows), None)

    row = _load(data, first)
    return None if row is None else list(row)


def of_file(data: Data, file: Path, title: str) -> Source:
    def read() -> Iterator[dict[str, Any]]:
        if title.endswith(".parquet"):
            yield from _parquet(data, file)
            return
        with file.open("rb") as stream:
            yield from read_rows(stream, title)

    def columns() -> Collection[str]:
        from pyarrow.parquet import read_schema

        return read_schema(file).names if title.endswith(".parquet") else ()

    return Source(title=title, rows=read, folder=file.parent, columns=columns)


def _parquet(data: Data, file: Path) -> Iterator[dict[str, Any]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        opened = ParquetFile(file)
        present = opened.schema_arrow.names
        if twice := columns_twice(present):
            raise FileError(f"has {twice}")
        # A function of the user may want all columns.
        wanted = present if data.hook else [name for name in present if name in data.columns]
        problem = data.missing_columns(present)
        if problem and not data.hook:
            raise InputError(f"data set {data.title} {problem}")
        for batch in opened.iter_batches(BATCH, columns=wanted):
            yield from batch.to_pylist()
    # A page that is damaged, and a time that Python does not have.
    except (ArrowException, OSError, OverflowError) as error:
        raise FileError(f"is no parquet that can be read: {one_line(error)}") from error


def _of_data_set(data: Data, split: str) -> list[Source]:
    from datasets import DownloadManager, Image, load_dataset, load_dataset_builder

    builder = load_dataset_builder(data.name, data.config, revision=data.revision)
    files: Mapping[str, list[str]] = builder.config.data_files or {}
    kind = type(builder).__module__.rpartition(".")[2]
    if kind in _TEXTS and not getattr(builder.config, "field", None) and split in files:
        names = [str(name) for name in files[split]]
        if all(_ROW_FILE.search(name) for name in names):
            paths = DownloadManager(download_config=None).download(names)
            return [
                of_file(data, Path(path), name.rsplit("/", 1)[-1])
                for name, path in zip(names, paths, strict=True)
            ]
    rows = load_dataset(data.name, data.config, revision=data.revision, split=split)
    for name, feature in rows.features.items():
        if isinstance(feature, Image):
            rows = rows.cast_column(name, Image(decode=False))
    present = rows.column_names
    wanted = [name for name in present if name in data.columns]
    rows = rows.select_columns(wanted) if wanted and not data.hook else rows
    return [Source(title=data.name, rows=lambda: iter(rows), columns=lambda: present)]


def _load(data: Data, action: Callable[[], Any]) -> Any:
    from datasets.exceptions import DatasetGenerationError, DatasetsError

    from shared.hub import read

    if Path(data.name).is_absolute() and not Path(data.name).exists():
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
    # What the library raises for a script, and for a tensor whose pickle is code.
    except (DatasetsError, RuntimeError, UnpicklingError) as error:
        raise InputError(
            f"data set {data.name}, split {data.split}, cannot be loaded: {one_line(error)}"
        ) from error
