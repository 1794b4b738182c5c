"""Rows in the forms that people have: what is trained, what is left out, and what is said of others."""

import json
from pathlib import Path
from typing import Any

import pytest
from row_forms import COLUMNS, OPENAI, QUESTION, ROW_FORMS, RowForm, lines, table

from conversations.known import FORMS
from conversations.turns import text_of
from finetune.rows.data import check_data, load_conversations
from finetune.settings.recipe import load_recipe
from finetune.settings.sections import Data
from shared.errors import InputError
from shared.recipe_file import RecipeError

MESSAGES = {"messages": "messages"}
USER, REPLY = OPENAI["messages"]


def loaded(tmp_path: Path, content: bytes, name: str = "rows.jsonl", **keys: Any) -> list[dict[str, Any]]:
    (tmp_path / name).write_bytes(content)
    data = Data(files=[str(tmp_path / name)], **keys)
    check_data(data)
    return [*load_conversations(data, 1)[0]]


@pytest.mark.parametrize("form", ROW_FORMS, ids=lambda form: form.name)
def test_rows_are_trained_as_they_stand_in_the_file(form: RowForm, tmp_path: Path) -> None:
    (row,) = loaded(tmp_path, form.content, form.file, **form.keys)
    turns = [*row.get("prompt", ()), *row.get("completion", ())]
    shown = [(turn["role"], text_of(turn)) for turn in turns] or [("text", row["text"])]
    assert shown == form.turns
    calls = [call["function"]["name"] for turn in turns for call in turn.get("tool_calls", ())]
    assert calls == form.tools


@pytest.mark.parametrize("form", ROW_FORMS, ids=lambda form: form.name)
def test_preflight_reads_a_file_with_the_run_s_own_code(form: RowForm) -> None:
    data = Data(files=[form.file], **form.keys)
    (row,) = data.rows_in(form.content, form.file, whole=True)
    assert [(turn["role"], text_of(turn)) for turn in data.conversation(row).turns] == form.turns


def test_the_page_on_own_data_has_the_table_of_these_forms() -> None:
    page = Path(__file__).parents[2] / "docs/training/own-data.md"
    assert table() in page.read_text(), f"write this table:\n{table()}"


def test_a_folder_is_read_as_its_files_are(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "rows.jsonl").write_bytes(lines({"question": "2025-06-01", "answer": "007"}))
    rows, _ = load_conversations(Data(name=str(tmp_path / "own"), **COLUMNS), 1)
    assert rows[0]["prompt"][0]["content"] == "2025-06-01"
    assert rows[0]["completion"][0]["content"] == "007"


def test_a_folder_among_the_files_stands_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for number, name in enumerate(("b.jsonl", "a.csv.gz", "notes.md")):
        (tmp_path / "own" / name).write_text(str(number))
    recipe = {
        "model": {"name": "a/b"},
        "data": {"files": ["own"], **COLUMNS},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    files = load_recipe(str(tmp_path / "recipe.yaml")).data.files
    assert files == [f"{tmp_path}/own/a.csv.gz", f"{tmp_path}/own/b.jsonl"]


def test_types_are_those_of_each_row_wherever_it_stands(tmp_path: Path) -> None:
    """The loader of a library fixes them by the first 10 MB."""
    early = [{"question": "x" * 2000, "answer": "a", "more": None}] * 6000
    late = {"question": {"at": 1}, "answer": "b", "more": {"since": "2025-06-01"}}
    rows = loaded(tmp_path, lines(*early, late), **COLUMNS)
    assert len(rows) == 6001
    assert rows[-1]["prompt"][0]["content"] == '{"at": 1}'


@pytest.mark.parametrize(
    ("split", "count"), [("train[:50%]", 5), ("train[8:]", 2), ("train[:3]+train[9:]", 4)]
)
def test_a_split_may_be_a_part_of_a_file(split: str, count: int, tmp_path: Path) -> None:
    assert len(loaded(tmp_path, lines(*[QUESTION] * 10), **COLUMNS, split=split)) == count


@pytest.mark.parametrize("split", ["test", "train[:a]", "train[20:]"])
def test_a_split_that_files_do_not_have_is_told(split: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="split"):
        loaded(tmp_path, lines(*[QUESTION] * 10), **COLUMNS, split=split)


UNTRAINABLE = {
    "the assistant begins": [REPLY],
    "two turns of a user": [USER, USER, REPLY],
    "a user ends": [USER, REPLY, USER],
    "a system message within": [USER, {"role": "system", "content": "b"}, REPLY],
    "no turns": [],
    "a number": 7,
    "keys of no form": [{"speaker": "a", "says": "b"}],
    "a content that is a number": [USER, {"role": "assistant", "content": 7}],
    "a part of sound": [{"role": "user", "content": [{"type": "input_audio"}]}, REPLY],
    "a weight between": [USER, REPLY | {"weight": 0.5}],
}


@pytest.mark.parametrize("messages", UNTRAINABLE.values(), ids=UNTRAINABLE.keys())
def test_a_row_that_cannot_be_trained_is_left_out_and_counted(
    messages: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"messages": messages}
    assert len(loaded(tmp_path, lines(*[OPENAI] * 9, bad), **MESSAGES)) == 9
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("1 of 10 rows are left out: ") and "(row 9: " in line
    with pytest.raises(
        InputError, match=r"row 8 \(the first is 0\): .*; 1 of 9 rows cannot be trained"
    ) as error:
        loaded(tmp_path, lines(*[OPENAI] * 8, bad), **MESSAGES)
    assert "\n" not in str(error.value)
    assert len(loaded(tmp_path, lines(*[OPENAI] * 8, bad), **MESSAGES, most_left_out=0.2)) == 8


def test_the_last_reply_alone_is_trained_on_demand(tmp_path: Path) -> None:
    talk = {"messages": [USER, REPLY, USER, REPLY]}
    (row,) = loaded(tmp_path, lines(talk), **MESSAGES, trained_replies="last")
    assert [turn.get("untrained") for turn in [*row["prompt"], *row["completion"]]] == [
        None,
        True,
        None,
        None,
    ]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(form.keys))
def test_rows_of_another_form_are_named_with_their_keys_and_what_to_write(form: Any, tmp_path: Path) -> None:
    row = dict.fromkeys(form.keys, "a")
    with pytest.raises(InputError) as error:
        loaded(tmp_path, lines(row), prompt="{other}", reply="another")
    assert f"has no column other, another; it has {', '.join(form.keys)}; as" in str(error.value)
    assert json.dumps(form.lines) and form.lines in str(error.value)


HOOK = """
def clean(row):
    if row["question"] == "skip":
        return None
    return [{"ask": row["question"], "answer": row["answer"].upper()}] * row.get("times", 1)

def fail(row):
    return row["missing"]

def odd(row):
    return 7

name = 7
"""
ASK: dict[str, Any] = {"prompt": "{ask}", "reply": "answer"}


def hooked(tmp_path: Path, function: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    (tmp_path / "my_rows.py").write_text(HOOK)
    return loaded(tmp_path, lines(*rows), **ASK, rows=f"{tmp_path}/my_rows.py:{function}")


def test_a_function_of_the_user_makes_one_row_several_or_none(tmp_path: Path) -> None:
    rows = hooked(tmp_path, "clean", QUESTION, QUESTION | {"question": "skip"}, QUESTION | {"times": 2})
    assert [row["completion"][0]["content"] for row in rows] == [QUESTION["answer"].upper()] * 3


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("fail", "fails at row 0 (the first is 0): KeyError: 'missing'"),
        ("odd", "must return a row, a list of rows or None, not 7"),
        ("none", "has no function none"),
        ("name", "has no function name"),
    ],
)
def test_a_function_that_fails_ends_the_run_with_its_row(function: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        hooked(tmp_path, function, QUESTION)
    assert problem in str(error.value) and "\n" not in str(error.value)


def test_a_file_of_a_function_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.rows: there is no file .*none\.py"):
        loaded(tmp_path, lines(QUESTION), **ASK, rows=f"{tmp_path}/none.py:clean")


@pytest.mark.parametrize(("value", "rows"), [("48", 48), ("mine.py:clean", "mine.py:clean"), ("null", None)])
def test_a_setting_gives_a_number_of_rows_or_a_function(value: str, rows: Any) -> None:
    assert load_recipe("gemma-3-1b-emoji", [f"data.rows={value}"]).data.rows == rows


def test_a_function_is_looked_for_beside_its_recipe(tmp_path: Path) -> None:
    data = {"name": "c/d", **ASK, "rows": "my_rows.py:clean"}
    (tmp_path / "recipe.yaml").write_text(json.dumps({"model": {"name": "a/b"}, "data": data}))
    recipe = load_recipe(str(tmp_path / "recipe.yaml"))
    assert recipe.data.hook == f"{tmp_path}/my_rows.py:clean" and recipe.data.limit is None
    assert recipe.with_hook_beside().data.hook == "my_rows.py:clean"


def mixed(tmp_path: Path, **more: Any) -> Data:
    """Ten conversations, twice an epoch, and twenty rows of columns, half of them an epoch."""
    (tmp_path / "chats.jsonl").write_bytes(lines(*[OPENAI] * 10))
    (tmp_path / "questions.csv").write_text("q,a\n" + "".join(f"q{at},a{at}\n" for at in range(20)))
    chats = {"files": [f"{tmp_path}/chats.jsonl"], "weight": 2.0}
    questions = {"files": [f"{tmp_path}/questions.csv"], "weight": 0.5, "prompt": "{q}", "reply": "a"}
    return Data.model_validate({**MESSAGES, "sets": [chats, questions], **more})


def test_several_data_sets_are_seen_as_often_as_their_weights_say(tmp_path: Path) -> None:
    data = mixed(tmp_path)
    check_data(data)
    rows, _ = load_conversations(data, 1)
    replies = [row["completion"][0]["content"] for row in rows]
    own = [reply for reply in replies if reply != REPLY["content"]]
    assert (len(replies), len(own), len(set(own))) == (30, 10, 10)
    again = [row["completion"][0]["content"] for row in load_conversations(data, 1)[0]]
    assert again == replies
    assert sorted(row["completion"][0]["content"] for row in load_conversations(data, 2)[0]) != sorted(
        replies
    )


def test_rows_that_are_held_out_of_several_data_sets_are_not_trained(tmp_path: Path) -> None:
    rows, test = load_conversations(mixed(tmp_path, test_rows=15), 1)
    held_out = [row["completion"][0]["content"] for row in test or ()]
    assert len(held_out) == 15
    trained = {row["completion"][0]["content"] for row in rows}
    assert not {reply for reply in held_out if reply != REPLY["content"]} & trained


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"name": "c/d", "sets": [{"files": ["a.jsonl"]}]}, "data.sets stand in place of data.name"),
        ({"sets": [{"name": "c/d"}]}, "data.sets.0.revision must name the commit of c/d"),
        ({"sets": [{"weight": 2.0}]}, "data.sets.0 must have name, a data set, or files"),
        (
            {"messages": None, "sets": [{"files": ["a.jsonl"]}]},
            "data.reply and data.prompt, or data.messages",
        ),
        ({"sets": [{"files": ["a.jsonl"], "wait": 1}]}, "data.sets.0.wait (did you mean weight?)"),
    ],
)
def test_sets_that_make_no_sense_are_refused(data: dict[str, Any], problem: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(json.dumps({"model": {"name": "a/b"}, "data": MESSAGES | data}))
    with pytest.raises(RecipeError) as error:
        load_recipe(str(tmp_path / "recipe.yaml"))
    assert problem in str(error.value)


def test_the_files_of_sets_lie_beside_their_recipe_and_move_with_it(tmp_path: Path) -> None:
    data = MESSAGES | {"sets": [{"files": ["a.jsonl"]}, {"files": ["b.csv"], "messages": "chat"}]}
    (tmp_path / "recipe.yaml").write_text(json.dumps({"model": {"name": "a/b"}, "data": data}))
    recipe = load_recipe(str(tmp_path / "recipe.yaml"))
    assert recipe.data.files == [f"{tmp_path}/a.jsonl", f"{tmp_path}/b.csv"]
    moved = recipe.with_files(["gs://b/a.jsonl", "gs://b/b.csv"])
    assert [(part.files, part.messages) for part in moved.data.parts] == [
        (["gs://b/a.jsonl"], "messages"),
        (["gs://b/b.csv"], "chat"),
    ]
    assert type(recipe).model_validate(moved.to_dict()) == moved
