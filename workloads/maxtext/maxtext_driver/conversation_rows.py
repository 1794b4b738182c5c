"""The conversations of a run as packed tokens: made once, before its workers start, and kept in its folder.

The GPU trainer makes the same tokens. The package `conversations` writes the whole conversation once, by the
model's chat template, and marks what the model writes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy

from conversations.chat_template import ChatTemplate, Row, check_vocabulary, shown
from conversations.columns import RowError
from conversations.conversation import Conversation
from conversations.pairs import read
from conversations.reading import FileError, read_rows
from conversations.stops import check_ends, tell_stops
from conversations.thinking import settle_for
from maxtext_driver.recipe import Recipe, RowFiles
from maxtext_driver.run_folder import RunFolder
from shared.errors import InputError, one_line
from shared.files import read_json, written_whole
from shared.model_files import FROM_DISK

FOLDER = "rows"
RECORD = f"{FOLDER}/rows.json"
# The settings with files of conversations, and what MaxText calls their rows.
PARTS = {"grain_train_files": "train", "grain_eval_files": "eval"}
# Share of the rows that a run may leave out because they cannot be read, as in the GPU trainer's recipes.
MOST_LEFT_OUT = 0.1
# Sequences that are filled side by side.
OPEN_SEQUENCES = 64


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The columns of a conversation, as `read` takes them."""

    messages: str
    tools: str | None = None
    text: None = None
    reply: str = ""
    rejected: None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    system: None = None
    prompt: str = ""
    image: None = None
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a run that fit into a sequence, by what MaxText calls their part.

    Attributes:
        thinks: Whether they have thoughts.
        tokenizer: Its chat template asks as the rows answer.
    """

    parts: dict[str, list[Row]]
    thinks: bool
    tokenizer: Any


def rows_of(recipe: Recipe, folder: Path) -> Rows:
    """The tokens of all conversations of a recipe. Raises InputError when they cannot be read or trained.

    Args:
        folder: The tokenizer and the configuration of the published weights.
    """
    tokenizer, vocabulary = _tokenizer(folder)
    read = {part: [*_conversations(recipe, key)] for key, part in PARTS.items() if recipe.maxtext.get(key)}
    thinks = any(conversation.thinks for conversation in read["train"])
    if line := settle_for(tokenizer, thinks):
        print(line, flush=True)
    parts = {
        part: _fitting(recipe, part, _tokens(conversations, tokenizer, vocabulary))
        for part, conversations in read.items()
    }
    return Rows(parts=parts, thinks=thinks, tokenizer=tokenizer)


def make_rows(recipe: Recipe, run: RunFolder, folder: Path) -> None:
    """Write the packed tokens of a run. The record comes last.

    For `folder` and what is raised see `rows_of`.
    """
    rows = rows_of(recipe, folder)
    print(
        "the first row as the model sees it:",
        *shown(rows.parts["train"][0], rows.tokenizer),
        sep="\n",
        flush=True,
    )
    (run.path / FOLDER).mkdir(exist_ok=True)
    record: dict[str, Any] = {"thinks": rows.thinks}
    for part, of_part in rows.parts.items():
        packed = pack(of_part, _length(recipe))
        with written_whole(_file(run, part)) as target, target.open("wb") as file:
            numpy.savez_compressed(file, **packed)
        sequences, trained = len(packed["tokens"]), int(packed["trained"].sum())
        record |= {f"{part}_rows": len(of_part), f"{part}_sequences": sequences, f"{part}_tokens": trained}
        print(
            f"{len(of_part):,} rows for {part} are {sequences:,} sequences of {_length(recipe):,} tokens, "
            f"with {trained:,} tokens of replies",
            flush=True,
        )
    run.write_text(RECORD, json.dumps(record, indent=2))


def with_steps(recipe: Recipe, run: RunFolder, chips: int) -> Recipe:
    """The recipe with the steps that its rows make, and an evaluation at both ends, once the rows are made.

    Raises InputError when the steps of the recipe see its rows less than once.
    """
    if not recipe.of_conversations:
        return recipe
    record = read_json(run, RECORD, numbers=[f"{part}_sequences" for part in PARTS.values()])
    if not record:
        return recipe
    batch = recipe.batch_of(chips)
    steps = recipe.maxtext.get("steps") or ceil(record["train_sequences"] * recipe.epochs / batch)
    derived = {"steps": steps}
    if evaluated := record.get("eval_sequences"):
        # MaxText evaluates after the first step and from then on in this distance.
        derived |= {"eval_interval": max(1, steps - 1), "eval_steps": ceil(evaluated / batch)}
    return recipe.model_copy(update={"maxtext": derived | recipe.maxtext})


def thinks(run: RunFolder) -> bool:
    """Whether the rows of a run have thoughts."""
    return bool(read_json(run, RECORD).get("thinks"))


def arrays(run: RunFolder, part: str) -> dict[str, Any]:
    """The packed sequences of a part, as `pack` makes them. Raises InputError for a file that is none."""
    try:
        with numpy.load(_file(run, part), allow_pickle=False) as stored:
            packed = {name: stored[name] for name in ("tokens", "trained", "segments", "positions")}
        shapes = {values.shape for values in packed.values()}
        if len(shapes) > 1 or packed["tokens"].ndim != 2 or not packed["tokens"].size:
            raise ValueError(f"its arrays have the shapes {sorted(shapes)}")
        return packed
    except Exception as error:  # numpy and zipfile raise many kinds for a file that others have written
        raise InputError(
            f"{_file(run, part)} cannot be read: {one_line(error)}; delete the folder {FOLDER} of the run, "
            "and the same command makes its rows again"
        ) from error


def pack(rows: Iterable[Row], length: int) -> dict[str, Any]:
    """Rows end to end in sequences of `length` tokens.

    `tokens`, `trained`, `segments` (1 for the first row of a sequence, 0 for padding) and `positions` within
    a row have a line for each sequence.
    """
    from grain.experimental import BestFitPackIterDataset
    from grain.python import MapDataset

    elements = [
        {"tokens": numpy.asarray(row.tokens, "int32"), "trained": numpy.asarray(row.trained, "int32")}
        for row in rows
    ]
    dataset = BestFitPackIterDataset(
        MapDataset.source(elements).to_iter_dataset(),
        length_struct={"tokens": length, "trained": length},
        num_packing_bins=OPEN_SEQUENCES,
    )
    sequences = [*dataset]
    stacked = {name: numpy.stack([sequence[name] for sequence in sequences]) for name in sequences[0]}
    return {
        "tokens": stacked["tokens"],
        "trained": stacked["trained"].astype(bool),
        "segments": stacked["tokens_segment_ids"].astype("int32"),
        "positions": stacked["tokens_positions"].astype("int32"),
    }


def _file(run: RunFolder, part: str) -> Path:
    return run.path / FOLDER / f"{part}.npz"


def _length(recipe: Recipe) -> int:
    return recipe.maxtext["max_target_length"]


def _tokenizer(folder: Path) -> tuple[Any, int]:
    """The tokenizer of the published weights, and the number of tokens that their model knows."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **FROM_DISK)
        vocabulary = AutoConfig.from_pretrained(folder, **FROM_DISK).get_text_config().vocab_size
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"the tokenizer of the weights cannot be loaded: {one_line(error)}") from error
    tell_stops(tokenizer, str(folder))
    check_ends(tokenizer)
    return tokenizer, vocabulary


def _conversations(recipe: Recipe, key: str) -> Iterator[Conversation]:
    """The conversations of all files of a setting. Prints how many rows are left out, and why."""
    messages, *tools = recipe.conversation_columns
    columns = _Columns(messages=messages, tools=tools[0] if tools else None)
    unusable, count = list[tuple[str, RowError]](), 0
    for files in recipe.row_files:
        if files.key != key:
            continue
        for place, row in _rows_in(files, columns):
            count += 1
            try:
                yield read(columns, row)
            except RowError as error:
                unusable.append((place, error))
    if len(unusable) > MOST_LEFT_OUT * count:
        place, first = unusable[0]
        raise InputError(
            f"{place}: {first}; {len(unusable):,} of {count:,} rows of {key} cannot be trained, and a "
            f"run leaves out a share of {MOST_LEFT_OUT} at most: correct them, or take them out of the files"
        )
    for reason, rows in Counter(error.reason for _, error in unusable).items():
        print(f"{rows:,} of {count:,} rows of {key} are left out: {reason}", flush=True)


def _rows_in(files: RowFiles, columns: _Columns) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if files.source is None:
        return _raw_rows(files, columns)
    from shared.hub import read

    return read(files.source, lambda: [*_raw_rows(files, columns)])


def _raw_rows(files: RowFiles, columns: _Columns) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of files as they stand there, each with its place for messages."""
    from fsspec.core import url_to_fs
    from pyarrow import ArrowException

    wanted = [name for name in (columns.messages, columns.tools) if name]
    system, pattern = url_to_fs(files.pattern)
    for name in sorted(system.glob(pattern)):
        with system.open(name) as stream:
            try:
                rows = _parquet(stream, wanted) if name.endswith(".parquet") else read_rows(stream, name)
                for number, row in enumerate(rows):
                    yield f"{name}, row {number} (the first is 0)", row
            except (FileError, ArrowException) as error:
                raise InputError(f"{name} {one_line(error)}") from error


def _parquet(stream: Any, columns: list[str]) -> Iterator[Mapping[str, Any]]:
    from pyarrow.parquet import ParquetFile

    for batch in ParquetFile(stream).iter_batches(columns=columns):
        yield from batch.to_pylist()


def _tokens(conversations: Iterable[Conversation], tokenizer: Any, vocabulary: int) -> Iterator[Row]:
    template = ChatTemplate(tokenizer)
    for conversation in conversations:
        for row in template.rows(conversation.turns, conversation.tools):
            check_vocabulary(row.tokens, tokenizer, vocabulary)
            yield row


def _fitting(recipe: Recipe, part: str, rows: Iterable[Row]) -> list[Row]:
    """The rows of at most max_target_length tokens. A truncated one would teach to stop in a sentence."""
    length, every = _length(recipe), [*rows]
    fitting = [row for row in every if len(row.tokens) <= length]
    if not fitting:
        raise InputError(
            f"all {len(every):,} rows for {part} are longer than max_target_length, {length} tokens; raise it"
        )
    if left_out := len(every) - len(fitting):
        print(
            f"{left_out:,} of {len(every):,} rows for {part} are left out: longer than max_target_length, "
            f"{length} tokens",
            flush=True,
        )
    return fitting
