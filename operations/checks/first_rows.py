"""The first rows of a data set, and what a run makes of them."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from engine.project import ROOT
from operations.findings import Finding, fine, problem, warning

# Greatest number of bytes that are read from the beginning of a file.
MOST_BYTES: Final = 2**20
# Greatest number of characters that a finding shows of a turn.
_LONGEST: Final = 160
_TRAINING_PYTHON: Final = ROOT / ".venv-training/bin/python"
# Parquet needs a library that only the training environment has. Columns with pictures are not read.
_PARQUET_PROGRAM: Final = """
import json, sys
from pyarrow.parquet import ParquetFile
path, number, *columns = sys.argv[1:]
file = ParquetFile(path)
present = file.schema_arrow.names
wanted = [column for column in columns if column in present]
batch = next(file.iter_batches(int(number), columns=wanted), None)
rows = batch.to_pylist() if batch else []
print(json.dumps({"columns": present, "rows": rows}, default=str))
"""
_PARQUET_ROWS: Final = 1000


class RowsError(Exception):
    """Why the rows of a file cannot be read. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class FirstRows:
    """The first rows of a file or data set.

    Args:
        columns: Names of all columns.
        whole: Whether there are no other rows.
        numbers: Places of the rows in the data set if some are left out. By default they follow each other.
    """

    rows: Sequence[Any]
    columns: Sequence[str]
    whole: bool = False
    numbers: Sequence[int] = ()


def of_json_lines(content: bytes, *, whole: bool) -> FirstRows:
    """The rows in the beginning of a JSONL file.

    Raises:
        RowsError: If a row is not what the trainer reads.
    """
    if not whole:
        content = content.rpartition(b"\n")[0]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        lines = content[: error.start].count(b"\n")
        raise RowsError(f"line {lines + 1} is not UTF-8") from None
    rows = []
    for number, row in enumerate(_values(text, whole)):
        if not isinstance(row, dict):
            raise RowsError(f"row {number} (the first is 0) is no object with columns")
        if not _is_unicode(row):
            raise RowsError(f"row {number} (the first is 0) has half a surrogate pair")
        rows.append(row)
    return FirstRows(rows=rows, columns=list(dict.fromkeys(chain.from_iterable(rows))), whole=whole)


def _values(text: str, whole: bool) -> Iterator[Any]:
    """The JSON values in a text, one after the other or in one list, as the trainer's library reads them."""
    decoder = json.JSONDecoder(strict=False)
    in_list = text.lstrip().startswith("[")
    between = re.compile(r"[\s,\[\]]*" if in_list else r"\s*")
    number, start, has_line_breaks = 0, 0, in_list
    while (start := _end(between, text, start)) < len(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError as error:
            # The rest of a row with line breaks may be behind what was read.
            if not whole and has_line_breaks:
                return
            raise RowsError(f"row {number} (the first is 0) is no JSON: {error}") from None
        has_line_breaks = has_line_breaks or "\n" in text[start:end]
        yield value
        number, start = number + 1, end


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _is_unicode(row: Any) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def of_parquet(path: Path, columns: Sequence[str]) -> FirstRows | None:
    """The first rows of a parquet file on this disk, None without the training environment.

    Raises:
        RowsError: If the file cannot be read.
    """
    if not _TRAINING_PYTHON.exists():
        return None
    command = [_TRAINING_PYTHON, "-c", _PARQUET_PROGRAM, path, str(_PARQUET_ROWS), *columns]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RowsError((done.stderr.strip().splitlines() or ["it cannot be read"])[-1])
    return FirstRows(**json.loads(done.stdout))


def findings_of(data: Any, title: str, first: FirstRows) -> Iterator[Finding]:
    """What a run makes of the first rows of a file or data set.

    Args:
        data: The section of the recipe.
        title: Name of the file or data set.
    """
    if not first.rows:
        yield problem(f"{title} has no rows", "write one row a line")
        return
    missing = [column for column in data.columns if column not in first.columns]
    if missing:
        yield problem(
            f"{title} has no column {', '.join(missing)}; it has {', '.join(first.columns)}",
            "name the file's columns in the section data of the recipe",
        )
        return
    shown, left_out = "", []
    for number, row in zip(first.numbers or range(len(first.rows)), first.rows, strict=True):
        try:
            turns = data.conversation({column: row.get(column) for column in data.columns})
        except ValueError as error:
            text = " ".join(str(error).split())
            yield problem(f"{title}, row {number} (the first is 0): {text}", "correct it: a run ends there")
            return
        if not turns:
            left_out.append(number)
        elif not shown:
            shown = f"row {number} of {title} without the chat template: {_rendered(turns)}"
    yield from _counted(data, title, first, left_out)
    if shown:
        yield fine(shown)


def _counted(data: Any, title: str, first: FirstRows, left_out: Sequence[int]) -> Iterator[Finding]:
    """Whether enough rows are left, and which rows a run leaves out."""
    usable, wanted = len(first.rows) - len(left_out), (data.rows or 1) + data.test_rows
    if first.whole and len(data.files) == 1 and usable < wanted:
        yield problem(
            f"{title} has {usable} usable rows, and the recipe takes {wanted}",
            "write more rows, fill texts that are empty, or lower data.rows and data.test_rows",
        )
    elif left_out:
        count = f"{len(left_out)} of {'all' if first.whole else 'the first'} {len(first.rows)} rows"
        numbers = ", ".join(map(str, left_out[:5])) + (", ..." if len(left_out) > 5 else "")
        yield warning(
            f"{title}: a run leaves out {count}, since a text is empty: {numbers} (the first is 0)",
            "fill the texts that are empty",
        )


def _rendered(turns: Sequence[dict[str, Any]]) -> str:
    parts = []
    for turn in turns:
        content, calls = turn["content"], turn.get("tool_calls")
        whole = content if isinstance(content, str) else "".join(part["text"] for part in content)
        text = " ".join(f"{whole} {json.dumps(calls) if calls else ''}".split())
        shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
        role = "assistant (trained)" if turn["role"] == "assistant" else turn["role"]
        parts.append(f"{role}: {shown}")
    return " | ".join(parts)
