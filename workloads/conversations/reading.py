"""Reads rows from the bytes of a file: JSON lines, a list of JSON, CSV, each also compressed with gzip.

A text of the file stays that text. Nothing guesses a type: a date, `007` or `1e5` in quotes is a text.
"""

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import IO, Any

# Names of files that are read here, and parquet.
NAMES = r"\.(jsonl|ndjson|json|csv|tsv)(\.gz)?$|\.parquet$"
# Names of files of rows that are not read, and what makes one of them a file that is.
_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        r"\.(jsonl|ndjson|json|csv|tsv|parquet)\.(zst|zstd|bz2|xz|lz4|br|zip|7z)$": "unpack it, or compress "
        "JSON or CSV with gzip",
        r"\.(xlsx|xlsm|xls|ods)$": "save the sheet as CSV",
        r"\.(arrow|feather|orc|avro)$": "write it as parquet",
        NAMES: "write the end of its name in small letters",
    }
)
_NO_ROWS = "is no JSON lines, JSON, CSV or parquet by its name"
Row = dict[str, Any]
_GZIP = b"\x1f\x8b"
_SEPARATORS = ",;\t|"
# Bytes of a text by their beginning, in encodings that are not read.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Where JSON may write half a character.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# A text of CSV may have so many characters. The library's own limit is 131,072.
csv.field_size_limit(2**31 - 1)


class FileError(ValueError):
    """Why a file of rows cannot be read. The message is one line."""


class _Twice(ValueError):
    """An object of JSON has a key twice."""


def row_file(name: str) -> str:
    """The name of a file of rows. Raises FileError, with what to do, for a name of another form."""
    if re.search(NAMES, name):
        return name
    advice = _advice(name)
    raise FileError(f"{name} {_NO_ROWS}{f': {advice}' if advice else ''}")


def may_have_rows(name: str) -> bool:
    """Whether a file of a folder is one of rows by its name, be it read here or refused."""
    return bool(re.search(NAMES, name) or _advice(name))


def _advice(name: str) -> str | None:
    return next((advice for form, advice in _OTHER_NAMES.items() if re.search(form, name.lower())), None)


def read_rows(stream: IO[bytes], name: str, *, whole: bool = True) -> Iterator[Row]:
    """The rows of a file, one by one.

    Args:
        name: The file's name, which says what it is.
        whole: Whether the stream is the whole file. Without it, a row that is cut at the end is left out.

    Raises:
        FileError: If there is something else than rows, with its line or row.
    """
    kind = next((kind for kind in _KINDS if kind in name.lower().rsplit("/", 1)[-1]), "")
    if not kind:
        raise FileError(_NO_ROWS)
    lines = _lines(stream, whole)
    rows = _KINDS[kind](lines, whole)
    if kind == ".json" and whole:
        rows = _by_rows(rows)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise FileError(f"row {number} (the first is 0) is no object with columns")
        yield row


def _lines(stream: IO[bytes], whole: bool) -> Iterator[str]:
    """The lines of a stream."""
    beginning = stream.read(2)
    if beginning in _UTF_16:
        raise FileError("line 1 is not UTF-8: the file is UTF-16")
    stream.seek(0)
    opened: Any = stream
    if beginning == _GZIP:
        opened = gzip.GzipFile(fileobj=stream)
    number = 0
    try:
        for number, line in enumerate(opened, start=1):
            is_cut = not (whole or line.endswith(b"\n"))
            yield line.decode("utf-8-sig" if number == 1 else "utf-8", "ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        raise FileError(f"line {number} is not UTF-8") from None
    except (EOFError, OSError, zlib.error) as error:
        if whole:
            raise FileError(f"line {number + 1} cannot be unpacked: {error}") from None


def _json(lines: Iterator[str], whole: bool) -> Iterator[Any]:
    """The values in lines of JSON: one a line, one after the other, or all in one list."""
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("["):
        yield from _json_list(first, lines, whole)
        return
    number, text = 0, first
    while True:
        text = text.lstrip()
        while text:
            try:
                value, end = _DECODER.raw_decode(text)
            except RecursionError:
                raise _too_deep(number) from None
            except ValueError as error:
                if not whole and not text.endswith("\n"):
                    return
                if not _goes_on(error, text):
                    raise _no_json(number, error) from None
                break
            yield _unicode(value, text[:end], number)
            number, text = number + 1, text[end:].lstrip()
        # The closing bracket of a value is in a line behind this one.
        more = _until_bracket(lines)
        if not more:
            break
        text += more
    if text and whole:
        raise _no_json(number, ValueError("the file ends within it"))


def _until_bracket(lines: Iterator[str]) -> str:
    parts = []
    for line in lines:
        parts.append(line)
        if "}" in line:
            break
    return "".join(parts)


def _goes_on(error: ValueError, text: str) -> bool:
    """Whether a value is cut at the end of the text."""
    return getattr(error, "pos", 0) >= len(text.rstrip())


def _json_list(first: str, lines: Iterator[str], whole: bool) -> Iterator[Any]:
    text = first + "".join(lines)
    between = re.compile(r"[\s,]*")
    number, start = 0, _end(between, text, text.index("[") + 1)
    while start < len(text) and text[start] != "]":
        try:
            value, end = _DECODER.raw_decode(text, start)
        except RecursionError:
            raise _too_deep(number) from None
        except ValueError as error:
            # The rest of the row is behind what was read.
            if not whole:
                return
            raise _no_json(number, error) from None
        yield _unicode(value, text[start:end], number)
        number, start = number + 1, _end(between, text, end)
    if start >= len(text) and whole:
        raise FileError(f"the list of rows does not end behind row {number - 1}")
    if text[start + 1 :].strip():
        raise FileError(f"has more behind its list of {number} rows: put all rows into one list")


def _by_rows(values: Iterator[Any]) -> Iterator[Any]:
    """The values. Raises FileError for a table that is written column by column: it would be one row."""
    beginning = [*islice(values, 2)]
    if len(beginning) == 1 and isinstance(beginning[0], dict) and _is_by_column(beginning[0]):
        raise FileError(
            "has its table column by column: write it row by row, with pandas to_json(orient='records')"
        )
    yield from beginning
    yield from values


def _is_by_column(row: Row) -> bool:
    values = [*row.values()]
    if all(isinstance(value, dict) and value and all(map(str.isdigit, value)) for value in values):
        return bool(values)
    lists = all(isinstance(value, list) for value in values) and len({*map(len, values)}) == 1
    return lists and len(values) > 1 and not any(isinstance(part, dict) for value in values for part in value)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _no_json(number: int, error: ValueError) -> FileError:
    fault = "has" if isinstance(error, _Twice) else "is no JSON:"
    return FileError(f"row {number} (the first is 0) {fault} {error}")


def _object(pairs: list[tuple[str, Any]]) -> Row:
    """An object of JSON. Raises _Twice if it has a key twice, because nobody can say which value counts."""
    row = dict(pairs)
    if len(row) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _Twice(f"two values for the key {key}: leave one out")
    return row


def _too_deep(number: int) -> FileError:
    return FileError(f"row {number} (the first is 0) has values that are nested too deep")


def _unicode(value: Any, written: str, number: int) -> Any:
    """The value. Half a character that JSON wrote as `\\ud83d` is no text."""
    if not _HALF.search(written):
        return value
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FileError(f"row {number} (the first is 0) has half a surrogate pair") from None
    except RecursionError:
        raise _too_deep(number) from None
    return value


def _table(lines: Iterator[str], whole: bool) -> Iterator[Any]:
    """The rows of a CSV file, by the names in its first line. Every value is a text."""
    first = next((line for line in lines if line.strip()), "")
    separator = max(_SEPARATORS, key=first.count)
    try:
        (names,) = csv.reader([first], delimiter=separator) if first else ([],)
    except csv.Error as error:
        raise FileError(f"line 1 is no CSV: {error}") from None
    if twice := columns_twice(names):
        raise FileError(f"line 1 has {twice}")
    # A value in quotes may hold line breaks.
    values = csv.reader(
        (line for line in lines if whole or line.endswith("\n")), delimiter=separator, strict=True
    )
    number = 0
    try:
        for row in values:
            if not row:
                continue
            if len(row) != len(names):
                raise FileError(
                    f"row {number} (the first is 0) has {len(row)} values, and the first line {len(names)}"
                )
            yield dict(zip(names, row, strict=True))
            number += 1
    except csv.Error as error:
        if whole:
            raise FileError(f"row {number} (the first is 0) is no CSV: {error}") from None


def columns_twice(names: Iterable[str]) -> str:
    """What to say of columns with one name, empty if there are none. Columns without a name are not read."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    return f"two columns {', '.join(twice)}: give each its own name" if twice else ""


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)
_KINDS: Mapping[str, Callable[[Iterator[str], bool], Iterator[Any]]] = MappingProxyType(
    {".jsonl": _json, ".ndjson": _json, ".json": _json, ".csv": _table, ".tsv": _table}
)
