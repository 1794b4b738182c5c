"""Rows of a user with pictures: what `up` uploads."""

import json
from pathlib import Path
from zipfile import ZipFile

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


def test_a_function_of_the_user_is_shipped_with_the_code(tmp_path: Path) -> None:
    """So it is in the digest of the run, and no account that writes to a bucket can change it."""
    data = {"name": "c/d", "prompt": "{a}", "reply": "b", "rows": "my_rows.py:clean"}
    (tmp_path / "mine.yaml").write_text(json.dumps({"model": {"name": "a/b"}, "data": data}))
    (tmp_path / "my_rows.py").write_text("def clean(row):\n    return row\n")
    training = FineTuning.model_construct(recipe=str(tmp_path / "mine.yaml"), recipe_set={})
    files = training.recipe_file
    assert files["finetune/recipes/my_rows.py"].startswith("def clean")
    assert "rows: my_rows.py:clean" in files["finetune/recipes/mine.yaml"]
