"""Keeps the rows that a run can train in an Arrow file, which all processes of a node read from the disk."""

import hashlib
import importlib.util
import inspect
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversations.columns import RowError
from conversations.conversation import Conversation, is_trained
from conversations.pairs import read
from conversations.turns import UNTRAINED
from finetune.rows.cores import cores, in_order
from finetune.rows.pictures import decode
from finetune.rows.sources import BATCH, Source, reading, sources_of
from finetune.settings.recipe import RECIPES
from finetune.settings.sections import Data
from shared.errors import InputError
from shared.files import written_whole

if TYPE_CHECKING:
    from datasets import Dataset

# Keys of a recipe that choose among rows, and do not change one.
_CHOICES = {"rows", "test_rows", "split", "most_left_out", "sets"}
_THREADS = min(16, os.cpu_count() or 1)
# Processes that make rows of what one process reads. More would wait for it.
_READERS = 4
# A row with its number, and the folder at which the paths of its pictures begin.
_Numbered = tuple[int, dict[str, Any], Path]


@dataclass(frozen=True, kw_only=True)
class Unusable:
    """A row that is left out: its number, why, and what is wrong with it."""

    at: int
    reason: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The rows of a split. `rows` has those that can be trained, with their numbers in `at`.

    `unread` has the columns that the recipe does not name.
    """

    rows: "Dataset"
    count: int
    unusable: list[Unusable]
    unread: list[str]


def stored(data: Data, split: str) -> Stored:
    """The rows of a split, read once on each node.

    Raises InputError when they cannot be read, or have not the recipe's columns.
    """
    from datasets import Dataset
    from datasets.config import HF_DATASETS_CACHE

    file = Path(HF_DATASETS_CACHE, "rows", f"{_digest(data, split)}.arrow")
    notes = file.with_suffix(".json")
    is_first = os.environ.get("LOCAL_RANK", "0") == "0"
    if not (notes.exists() and file.exists()) or (is_first and not _is_pinned(data)):
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(notes) as notes_part, written_whole(file) as part:
            reader, unusable = _write(data, sources_of(data, split), part)
            left_out = [[row.at, row.reason, row.detail] for row in unusable]
            notes_part.write_text(json.dumps([reader.count, left_out, reader.unread]))
    count, left_out, unread = json.loads(notes.read_text())
    unusable = [Unusable(at=at, reason=reason, detail=detail) for at, reason, detail in left_out]
    return Stored(rows=Dataset.from_file(str(file)), count=count, unusable=unusable, unread=unread)


def _is_pinned(data: Data) -> bool:
    """Whether the digest changes with the rows. Pictures are files of their own."""
    if data.image or data.hook:
        return False
    return bool(data.files) or (data.on_hub and data.revision is not None)


def _digest(data: Data, split: str) -> str:
    """Digest of everything that the stored rows depend on, this code included."""
    parts = [repr(sorted(data.model_dump(exclude=_CHOICES).items())), split, str(data.hook)]
    return hashlib.sha256(b"\0".join([*(part.encode() for part in parts), *own_code()])).hexdigest()[:24]


def own_code() -> list[bytes]:
    """The files of code on which rows and their tokens depend."""
    package, conversations = Path(__file__).parents[1], Path(inspect.getfile(Conversation)).parent
    return [path.read_bytes() for path in sorted([*package.glob("*/*.py"), *conversations.glob("*.py")])]


def _write(data: Data, sources: list[Source], target: Path) -> "tuple[Reader, list[Unusable]]":
    import pyarrow

    picture = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    fields = [("at", pyarrow.int64()), ("thinks", pyarrow.bool_()), ("row", pyarrow.large_string())]
    schema = pyarrow.schema(
        [*fields, *([("many", pyarrow.int64()), ("pictures", pyarrow.list_(picture))] if data.image else [])]
    )
    reader, unusable = Reader(data), list[Unusable]()
    with (
        pyarrow.OSFile(str(target), "wb") as sink,
        pyarrow.ipc.new_stream(sink, schema) as writer,
        ThreadPoolExecutor(_THREADS) as threads,
    ):
        rows = reader.rows_on_cores(sources)
        while batch := [*islice(rows, BATCH)]:
            usable = []
            for row in threads.map(checked, batch) if data.image else batch:
                usable += row if isinstance(row, list) else []
                unusable += [row] if isinstance(row, Unusable) else []
            writer.write_table(pyarrow.Table.from_pylist(usable, schema))
    reader.check_columns()
    return reader, unusable


def checked(row: "list[dict[str, Any]] | Unusable") -> "list[dict[str, Any]] | Unusable":
    """The same, if its pictures can be decoded."""
    if isinstance(row, Unusable):
        return row
    try:
        for picture in row[-1]["pictures"]:
            decode(picture)
    except RowError as error:
        return Unusable(at=row[0]["at"], reason=error.reason, detail=str(error))
    return row


class Reader:
    """Turns the rows of sources into what is stored, and counts them."""

    def __init__(self, data: Data):
        self.count = 0
        self._data = data
        self.keys = dict[str, None]()
        self._others = dict[str, None]()
        self._hook = load_hook(data.hook) if data.hook else None

    def rows(self, sources: list[Source]) -> "Iterator[list[dict[str, Any]] | Unusable]":
        """What a row becomes: one row to store, or several, or the reason why it is left out."""
        yield from map(self._stored, self._numbered(sources))

    def rows_on_cores(self, sources: list[Source]) -> "Iterator[list[dict[str, Any]] | Unusable]":
        """The same. Several processes make them, unless they are few, have pictures, or are a function's."""
        numbered = self._numbered(sources)
        first = [*islice(numbered, BATCH)]
        is_alone = len(first) < BATCH or self._data.image or self._data.hook
        processes = 1 if is_alone else min(cores(), _READERS)
        batches = chain([first], iter(lambda: [*islice(numbered, BATCH)], []))
        yield from chain.from_iterable(in_order(self._batch, batches, processes))

    def _batch(self, rows: list[_Numbered]) -> "list[list[dict[str, Any]] | Unusable]":
        return [*map(self._stored, rows)]

    def _numbered(self, sources: list[Source]) -> Iterator[_Numbered]:
        """The rows as they are read. Counts them."""
        for source in sources:
            with reading(self._data, source):
                for raw in source.rows():
                    for row in self._hooked(raw):
                        self.keys.update(dict.fromkeys(row))
                        yield self.count, row, source.folder
                        self.count += 1
                if self._hook is None:
                    self._others.update(dict.fromkeys(source.columns()))

    @property
    def unread(self) -> list[str]:
        """The columns that the recipe does not name."""
        return [name for name in {**self.keys, **self._others} if name not in self._data.columns]

    def check_columns(self) -> None:
        """Raises InputError when no row has a column that the recipe names."""
        check_columns(self._data, [*self.keys], self.count)

    def _hooked(self, raw: dict[str, Any]) -> list[dict[str, Any]]:
        if self._hook is None:
            return [raw]
        try:
            result = self._hook(raw)
        except Exception as error:  # the user's own code
            raise InputError(
                f"data.rows: {self._data.hook} fails at row {self.count} (the first is 0): "
                f"{type(error).__name__}: {error}"
            ) from error
        rows = result if isinstance(result, list) else [] if result is None else [result]
        if not all(isinstance(row, dict) for row in rows):
            raise InputError(
                f"data.rows: {self._data.hook} must return a row, a list of rows or None, not {result!r}"[
                    :300
                ]
            )
        return rows

    def _stored(self, numbered: _Numbered) -> "list[dict[str, Any]] | Unusable":
        at, row, folder = numbered
        try:
            conversation = read(self._data, row)
        except RowError as error:
            return Unusable(at=at, reason=error.reason, detail=str(error))
        if self._data.trained_replies == "last":
            turns = [_untrained(turn) for turn in conversation.turns[:-1]]
            conversation = replace(conversation, turns=[*turns, conversation.turns[-1]])
        values = {column: row.get(column) for column in self._data.fields.values()}
        kept = {"at": at, "thinks": conversation.thinks}
        if not self._data.image:
            return [kept | {"row": _json(conversation, len(conversation.turns), values)}]
        pictures = [_picture(picture, folder) for picture in conversation.pictures]
        ends = [end for end, turn in enumerate(conversation.turns, start=1) if is_trained(turn)]
        shown = [pictures[: _places(conversation, end)] for end in ends]
        return [
            kept | {"row": _json(conversation, end, values), "many": len(part), "pictures": part}
            for end, part in zip(ends, shown, strict=True)
        ]


def _untrained(turn: dict[str, Any]) -> dict[str, Any]:
    return turn | {UNTRAINED: True} if turn["role"] == "assistant" else turn


def _places(read: Conversation, end: int) -> int:
    """How many pictures stand in the first turns. Without a place in a turn, all stand before them."""
    parts = [part for turn in read.turns for part in turn["content"] if isinstance(part, dict)]
    if not any(part.get("type") == "image" for part in parts):
        return len(read.pictures)
    kept = [part for turn in read.turns[:end] for part in turn["content"] if isinstance(part, dict)]
    return sum(part.get("type") == "image" for part in kept)


def _json(read: Conversation, end: int, values: dict[str, Any]) -> str:
    row = {"turns": read.turns[:end], "tools": read.tools, "values": values}
    row |= {"rejected": read.rejected} if read.rejected else {}
    return json.dumps(row, ensure_ascii=False, default=str)


def _picture(picture: Any, folder: Path) -> dict[str, Any]:
    if isinstance(picture, bytes):
        return {"bytes": picture, "path": None}
    return {"bytes": None, "path": str(folder / picture)}


def check_columns(data: Data, present: list[str], rows: int) -> None:
    """Raises InputError when the recipe names a column that no row has."""
    problem = data.missing_columns(present)
    if problem and rows:
        raise InputError(f"data set {data.title} {problem}")


def load_hook(hook: str) -> Any:
    """The user's function at FILE.py:FUNCTION. Raises InputError if there is none."""
    file, _, name = hook.rpartition(":")
    # A stack ships it beside the recipe.
    file = str(RECIPES / file)
    if not Path(file).exists():
        raise InputError(f"data.rows: there is no file {file}")
    spec = importlib.util.spec_from_file_location("rows_of_the_user", file)
    if spec is None or spec.loader is None:
        raise InputError(f"data.rows: {file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code
        raise InputError(f"data.rows: {file} fails: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"data.rows: {file} has no function {name}")
    return function
