"""Rows as tools export them: each is read, or refused in one line, and no column is left out unsaid."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from row_forms import COLUMNS, OPENAI, QUESTION, lines
from test_row_forms import MESSAGES, REPLY, USER, loaded

from finetune.rows.store import own_code
from shared.errors import InputError

VERTEX = {"role": "user", "parts": [{"text": "a"}]}
SHAREGPT = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
BY_COLUMN = "table column by column"
REFUSED = {
    "trl's prompt and completion": (
        "rows.jsonl",
        lines({"question": [USER], "answer": [REPLY]}),
        "holds turns",
    ),
    "turns beside a text": ("rows.jsonl", lines({"question": [USER], "answer": "b"}), "question holds turns"),
    "one turn": ("rows.jsonl", lines({"question": "a", "answer": REPLY}), "answer holds turns"),
    "ShareGPT's turns": (
        "rows.jsonl",
        lines({"question": "a", "answer": SHAREGPT["conversations"]}),
        "each with from, value: write messages: answer",
    ),
    "OASST": (
        "rows.jsonl",
        lines({"message_id": "1", "parent_id": None, "text": "a", "role": "prompter"}),
        "as a tree of messages they need, in data: rows:",
    ),
    "pandas' own JSON": (
        "rows.json",
        json.dumps({name: {"0": "a"} for name in QUESTION}).encode(),
        BY_COLUMN,
    ),
    "lists by column": ("rows.json", json.dumps({name: ["a", "b"] for name in QUESTION}).encode(), BY_COLUMN),
    "a column twice": ("rows.csv", b"question,answer,answer\na,b,c\n", "line 1 has two columns answer"),
    "ends of an old Macintosh": ("rows.csv", b"question,answer\ra,b\r", "line 1 is no CSV"),
    "levels without an end": (
        "rows.jsonl",
        b'{"question":' + b"[" * 100_000 + b"]" * 100_000 + b',"answer":"b"}',
        "nested too deep",
    ),
    "a list of such": ("rows.json", b"[" * 100_000, "nested too deep"),
}


@pytest.mark.parametrize(("file", "content", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_train_something_else_is_refused_in_one_line(
    file: str, content: bytes, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words) as error:
        loaded(tmp_path, content, file, **COLUMNS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"functionCall": {"name": "f", "args": {}}}, "a part of type functionCall"),
        ({"fileData": {"fileUri": "gs://a/b.png"}}, "a part of type fileData"),
        ({"inlineData": {"data": "aGk="}}, "a message has a picture: write data.image"),
        ({"type": "tool_use", "name": "f", "input": {}}, "a part of type tool_use"),
        ({"type": "thinking", "thinking": "a"}, "a part of type thinking"),
    ],
)
def test_a_part_that_cannot_be_trained_is_named(part: dict[str, Any], words: str, tmp_path: Path) -> None:
    row = {"messages": [VERTEX, {"role": "model", "parts": [part]}]}
    with pytest.raises(InputError, match=words):
        loaded(tmp_path, lines(row), **MESSAGES)


@pytest.mark.parametrize("prompt", ["{question:.2f}", "{question:d}"])
def test_a_placeholder_that_does_not_take_a_value_is_told(prompt: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"row 0 .*: data.prompt: "):
        loaded(tmp_path, lines(QUESTION), prompt=prompt, reply="answer", fields={"question": "question"})


LONG = "x" * 200_000


@pytest.mark.parametrize(
    ("file", "content", "reply"),
    [
        ("rows.csv", f"question,answer\na,{LONG}\n".encode(), LONG),
        ("rows.json", json.dumps(QUESTION).encode(), QUESTION["answer"]),
        ("rows.json", json.dumps({"question": [1], "answer": [2]}).encode() * 2, "[2]"),
    ],
    ids=["a long text", "one row", "two rows of lists"],
)
def test_what_looks_odd_and_is_right_is_read(file: str, content: bytes, reply: str, tmp_path: Path) -> None:
    row, *_ = loaded(tmp_path, content, file, **COLUMNS)
    assert row["completion"][0]["content"] == reply


def test_names_of_roles_have_letters_of_any_size(tmp_path: Path) -> None:
    row = {"messages": [USER | {"role": "User"}, REPLY | {"role": "Assistant"}]}
    (row,) = loaded(tmp_path, lines(row), **MESSAGES)
    assert [*row["prompt"], *row["completion"]] == [USER, REPLY]


DAY, NOON = datetime.date(2025, 6, 1), datetime.datetime(2025, 6, 1, 12)
PARQUET = [
    (DAY, "2025-06-01"),
    (NOON, "2025-06-01 12:00:00"),
    (datetime.time(1, 2), "01:02:00"),
    (Decimal("1.50"), "1.50"),
    ({"at": DAY, "for": Decimal("1.5")}, '{"at": "2025-06-01", "for": 1.5}'),
    (b"a", None),
    ([b"a"], None),
]


@pytest.mark.parametrize(("value", "text"), PARQUET, ids=lambda value: str(value))
def test_a_value_of_parquet_is_its_text_and_bytes_are_none(
    value: Any, text: str | None, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"question": [value], "answer": ["b"]}), tmp_path / "rows.parquet")
    content = (tmp_path / "rows.parquet").read_bytes()
    if text is None:
        with pytest.raises(InputError, match="a column has bytes, such as b'a'"):
            loaded(tmp_path, content, "rows.parquet", **COLUMNS)
        return
    (row,) = loaded(tmp_path, content, "rows.parquet", **COLUMNS)
    assert row["prompt"][0]["content"] == text


UNREAD = {
    "OpenAI's tools": (
        OPENAI | {"tools": [], "parallel_tool_calls": False},
        MESSAGES,
        "tools, parallel_tool_calls",
    ),
    "ShareGPT's system": (SHAREGPT | {"system": "a"}, {"messages": "conversations"}, "system"),
    "LLaVA without pictures": (SHAREGPT | {"image": "a.jpg"}, {"messages": "conversations"}, "image"),
    "a history": (QUESTION | {"history": [["a", "b"]]}, COLUMNS, "history"),
    "KTO": (QUESTION | {"label": False}, COLUMNS, "label"),
    "many": (
        QUESTION | dict.fromkeys("abcdefghijklmn", 1),
        COLUMNS,
        "a, b, c, d, e, f, g, h, i, j, k, l and 2 more",
    ),
}


@pytest.mark.parametrize("is_parquet", [False, True], ids=["text", "parquet"])
@pytest.mark.parametrize(("row", "keys", "names"), UNREAD.values(), ids=UNREAD.keys())
def test_columns_that_are_not_trained_are_named(
    row: dict[str, Any],
    keys: dict[str, Any],
    names: str,
    is_parquet: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content, file = lines(row), "rows.jsonl"
    if is_parquet:
        file = "rows.parquet"
        parquet.write_table(pa.Table.from_pylist([row]), tmp_path / file)
        content = (tmp_path / file).read_bytes()
    for _ in range(2):  # the second time from what is stored
        loaded(tmp_path, content, file, **keys)
        (line,) = capsys.readouterr().out.splitlines()
        assert line == f"columns of {tmp_path / file} that are not trained: {names}"


def test_what_is_stored_of_rows_depends_on_all_code_that_reads_them() -> None:
    workloads = Path(__file__).parents[2] / "workloads"
    for file in ("conversations/turns.py", "finetune/rows/tokens.py"):
        assert (workloads / file).read_bytes() in own_code()
