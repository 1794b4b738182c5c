"""Rows as tools export them: each is read, or refused in one line, and no column is left out unsaid."""

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from row_forms import COLUMNS, OPENAI, QUESTION, lines
from test_row_forms import MESSAGES, REPLY, USER, loaded

from finetune.rows import cores, store
from finetune.rows.store import own_code
from finetune.settings.recipe import load_recipe
from shared.errors import InputError
from shared.recipe_file import RecipeError

VERTEX = {"role": "user", "parts": [{"text": "a"}]}
SHAREGPT = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
BY_COLUMN = "table column by column"


def parquet_of(row: dict[str, Any], *names: str) -> bytes:
    """A file with one row, whose columns have these names."""
    columns = [pa.array([row[name]]) for name in names or row]
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns, [*(names or row)]), buffer)
    return buffer.getvalue()


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
    "a key twice": (
        "rows.jsonl",
        lines(QUESTION) + b'{"question":"a","answer":"b","question":"c"}',
        "row 1 .* has two values for the key question: leave one out",
    ),
    "a key twice within": (
        "rows.json",
        b'[{"question":{"a":1,"b":2,"a":3},"answer":"b"}]',
        "row 0 .* has two values for the key a",
    ),
    "a second list": (
        "rows.json",
        json.dumps([QUESTION]).encode() * 2,
        "has more behind its list of 1 rows: put all rows into one list",
    ),
    "an empty row": ("rows.json", b"null\n" + lines(QUESTION), "row 0 .* is no object"),
    "a broken row in the middle": (
        "rows.jsonl",
        lines(QUESTION) + b'{"question": "a", "answer"\n' + lines(QUESTION),
        "row 1 .* is no JSON",
    ),
    "a table without its last line": (
        "rows.parquet",
        parquet_of(QUESTION)[:-20],
        "is no parquet that can be",
    ),
    "a table with a damaged page": (
        "rows.parquet",
        parquet_of(QUESTION)[:8] + bytes(20) + parquet_of(QUESTION)[28:],
        "is no parquet that can be read",
    ),
    "a time after the year 9999": (
        "rows.parquet",
        parquet_of({"question": pa.scalar(10**18, pa.timestamp("us")), "answer": "b"}),
        "is no parquet that can be read",
    ),
    "a column of parquet twice": (
        "rows.parquet",
        parquet_of(QUESTION, "question", "answer", "answer"),
        "has two columns answer: give each its own name",
    ),
}


@pytest.mark.parametrize(("file", "content", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_train_something_else_is_refused_in_one_line(
    file: str, content: bytes, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words) as error:
        loaded(tmp_path, content, file, **COLUMNS)
    assert "\n" not in str(error.value)


def nested(levels: int) -> Any:
    """An object in an object, so many levels deep."""
    return json.loads('{"a":' * levels + "1" + "}" * levels)


DEEP: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a column": (QUESTION | {"question": nested(300)}, COLUMNS),
    "a key of a turn": ({"messages": [USER | {"a": nested(300)}, REPLY]}, MESSAGES),
    "tools": (OPENAI | {"tools": [nested(300)]}, MESSAGES | {"tools": "tools"}),
    "tools as a text": (OPENAI | {"tools": json.dumps([nested(300)])}, MESSAGES | {"tools": "tools"}),
}


@pytest.mark.parametrize(("row", "keys"), DEEP.values(), ids=DEEP.keys())
def test_a_row_with_too_many_levels_is_left_out(
    row: dict[str, Any], keys: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some library would end in a traceback at them, in the middle of a run."""
    assert len(loaded(tmp_path, lines(row, *[QUESTION | OPENAI] * 9), **keys)) == 9
    assert "1 of 10 rows are left out: a value is nested too deep" in capsys.readouterr().out


def test_a_row_with_many_levels_is_read(tmp_path: Path) -> None:
    (row,) = loaded(tmp_path, lines(QUESTION | {"question": nested(90)}), **COLUMNS)
    assert json.loads(row["prompt"][0]["content"]) == nested(90)


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
        ("rows.csv", b"question,answer,,\na,b,,\n", "b"),
        ("rows.jsonl", b"\xef\xbb\xbf" + lines(QUESTION).replace(b"\n", b"\r\n\r\n"), QUESTION["answer"]),
        ("rows.jsonl", rb'{"question":"a","answer":"\ud83d\ude00 \\ud83d"}', "\U0001f600 \\ud83d"),
    ],
    ids=["a long text", "one row", "two rows of lists", "ends of a sheet", "Windows", "halves of one"],
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
    "a column without a name": (QUESTION | {"": 1}, COLUMNS, "one without a name"),
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


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("rows.jsonl.zst", "unpack it, or compress JSON or CSV with gzip"),
        ("rows.parquet.zip", "unpack it, or compress JSON or CSV with gzip"),
        ("rows.xlsx", "save the sheet as CSV"),
        ("rows.arrow", "write it as parquet"),
        ("rows.JSONL", "write the end of its name in small letters"),
        ("rows.docx", None),
    ],
)
@pytest.mark.parametrize("is_folder", [False, True], ids=["a file", "in a folder"])
def test_a_file_of_rows_that_is_not_read_is_named_with_what_to_do(
    name: str, advice: str | None, is_folder: bool, tmp_path: Path
) -> None:
    """Such a file in a folder was left out, and the run trained the others alone."""
    (tmp_path / "rows").mkdir()
    for file in (name, "others.jsonl", "others.jsonl.pictures.zip", "README.md"):
        (tmp_path / "rows" / file).write_bytes(b"")
    place = "rows" if is_folder else f"rows/{name}"
    data = {"files": [place], **COLUMNS}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps({"model": {"name": "a/b"}, "data": data}))
    if is_folder and not advice:
        assert load_recipe(str(recipe)).data.files == [str(tmp_path / "rows/others.jsonl")]
        return
    with pytest.raises(RecipeError) as error:
        load_recipe(str(recipe))
    number = 1 if is_folder and name > "others.jsonl" else 0
    words = (
        f"data.files.{number} {tmp_path / 'rows' / name} is no JSON lines, JSON, CSV or parquet by its name"
    )
    assert str(error.value) == f"recipe {recipe}: {words}{f': {advice}' if advice else ''}"


def test_processes_make_the_rows_that_one_makes_in_the_order_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [QUESTION | {"question": str(number) if number % 9 else ""} for number in range(50)]
    results = []
    for processes in (3, 1):
        monkeypatch.setattr(store, "BATCH", 4)
        monkeypatch.setattr(store, "cores", lambda processes=processes: processes)
        started = []
        monkeypatch.setattr(
            store, "in_order", lambda *of, started=started: started.append(of[-1]) or cores.in_order(*of)
        )
        folder = tmp_path / str(processes)
        folder.mkdir()
        read = loaded(folder, lines(*rows), **COLUMNS, most_left_out=0.5, split="train[5:40]")
        results.append([row["prompt"][0]["content"] for row in read])
        assert started == [processes]
        assert "4 of 35 rows are left out: a text that the recipe needs is empty" in capsys.readouterr().out
    assert results[0] == results[1] == [str(at) for at in range(5, 40) if at % 9]
