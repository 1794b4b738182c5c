"""Rows of a user with pictures: what `up` uploads."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from stacks.serving.questions import first_question
from stacks.training.rows import uploads
from stacks.training.settings import FineTuning
from workloads.finetune.settings.sections import Data


def test_pictures_go_to_the_bucket_beside_their_rows_and_change_the_folder(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    names = ["img/0.png", "../1.png", "/2.png", "img/none.png", "data:image/png;base64,aGk="]
    rows.write_text("".join(f"{json.dumps({'p': 'a', 'r': 'b', 'i': name})}\n" for name in names))
    (tmp_path / "img").mkdir()
    (tmp_path / "img/0.png").write_bytes(b"red")
    data = Data(files=[str(rows)], prompt="{p}", fields={"p": "p"}, reply="r", image="i")
    paths = data.picture_paths(rows)
    assert paths == ["img/0.png"]
    first, archive = uploads(rows, paths)
    assert (Path(first).name, Path(archive).name) == ("rows.jsonl", "rows.jsonl.pictures.zip")
    assert Path(first).parent == Path(archive).parent
    with ZipFile(uploads(rows, paths)[archive]) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {"img/0.png": b"red"}
    (tmp_path / "img/0.png").write_bytes(b"blue")
    assert first not in uploads(rows, paths)
    assert [*uploads(rows, [])] != [first]


QUESTION = "A lamp for reading"
COLUMNS: dict[str, Any] = {"prompt": "{q}", "fields": {"q": "q"}, "reply": "a"}
ASKED = {"role": "user", "content": QUESTION}
SHOWN = {"role": "user", "content": [{"type": "image", "image": "1.png"}, {"type": "text", "text": QUESTION}]}
REPLY = {"role": "assistant", "content": "Fine"}
SHAREGPT = [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": "Fine"}]
# The rows of a file, its name, and the keys of the section data.
FIRST_ROWS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "OpenAI": ({"m": [{"role": "system", "content": "s"}, ASKED, REPLY]}, "rows.jsonl", {"messages": "m"}),
    "with a picture": ({"m": [SHOWN, REPLY]}, "rows.jsonl", {"messages": "m", "image": "m"}),
    "ShareGPT": ({"c": SHAREGPT}, "rows.jsonl", {"messages": "c"}),
    "a list": ([{"m": [ASKED, REPLY]}], "rows.json", {"messages": "m"}),
    "columns": ({"q": QUESTION, "a": "Fine"}, "rows.jsonl", COLUMNS),
}


@pytest.mark.parametrize("form", FIRST_ROWS)
@pytest.mark.parametrize("in_a_set", [False, True], ids=["alone", "in a set"])
def test_the_question_of_a_stack_is_that_of_its_first_row_in_any_form(
    form: str, in_a_set: bool, tmp_path: Path
) -> None:
    content, name, columns = FIRST_ROWS[form]
    (tmp_path / name).write_text(json.dumps(content))
    place: dict[str, Any] = {"files": [str(tmp_path / name)]}
    data = Data.model_validate(columns | ({"sets": [place, place]} if in_a_set else place))
    assert first_question(data) == QUESTION


def test_rows_that_a_function_makes_or_only_a_training_reads_give_no_question(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"m": [ASKED, REPLY]}))
    (tmp_path / "rows.parquet").write_text("")
    for name, rows in (("rows.jsonl", "mine.py:clean"), ("rows.parquet", None)):
        question = first_question(Data(files=[str(tmp_path / name)], messages="m", rows=rows))
        assert question == "I ate a banana for breakfast"


def test_a_function_of_the_user_is_shipped_with_the_code(tmp_path: Path) -> None:
    """So it is in the digest of the run, and no account that writes to a bucket can change it."""
    data = {"name": "c/d", "prompt": "{a}", "reply": "b", "rows": "my_rows.py:clean"}
    (tmp_path / "mine.yaml").write_text(json.dumps({"model": {"name": "a/b"}, "data": data}))
    (tmp_path / "my_rows.py").write_text("def clean(row):\n    return row\n")
    training = FineTuning.model_construct(recipe=str(tmp_path / "mine.yaml"), recipe_set={})
    files = training.recipe_file
    assert files["finetune/recipes/my_rows.py"].startswith("def clean")
    assert "rows: my_rows.py:clean" in files["finetune/recipes/mine.yaml"]
