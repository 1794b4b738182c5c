"""Pictures in the forms that people have them, and what becomes of those that cannot be read."""

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from row_forms import lines

from finetune.rows.data import load_conversations
from finetune.rows.first import first_rows
from finetune.settings.recipe import Recipe, load_recipe
from finetune.settings.sections import Data
from rehearsal.running_pods.tiny import make_recipe
from rehearsal.stand_ins.bucket import Buckets
from shared.errors import InputError

KEYS: dict[str, Any] = {"prompt": "What is {name}?", "reply": "text", "image": "picture"}
RED = (200, 10, 10)


def png(color: Any = RED, mode: str = "RGB", **options: Any) -> bytes:
    from PIL import Image

    target = io.BytesIO()
    Image.new(mode, (6, 4), color).save(target, "PNG", **options)
    return target.getvalue()


def uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def row(picture: Any) -> dict[str, Any]:
    return {"name": "it", "text": "Red.", "picture": picture}


def loaded(data: Data) -> list[dict[str, Any]]:
    return [*load_conversations(data, 1)[0]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "0.png").write_bytes(png())
    return tmp_path


def in_json(folder: Path, *rows: Any, **keys: Any) -> Data:
    (folder / "rows.jsonl").write_bytes(lines(*rows))
    return Data(files=[str(folder / "rows.jsonl")], **(KEYS | keys))


def in_parquet(folder: Path, *pictures: Any) -> Data:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist([row(picture) for picture in pictures])
    parquet.write_table(table, folder / "rows.parquet")
    return Data(files=[str(folder / "rows.parquet")], **KEYS)


FORMS: dict[str, Callable[[Path], Data]] = {
    "a path beside the rows": lambda folder: in_json(folder, row("img/0.png")),
    "a whole path": lambda folder: in_json(folder, row(str(folder / "img/0.png"))),
    "a data URI": lambda folder: in_json(folder, row(uri(png()))),
    "a list of one": lambda folder: in_json(folder, row(["img/0.png"])),
    "an object with a path": lambda folder: in_json(folder, row({"path": "img/0.png"})),
    "bytes": lambda folder: in_parquet(folder, png()),
    "bytes with a path": lambda folder: in_parquet(folder, {"bytes": png(), "path": "0.png"}),
    "a list of bytes": lambda folder: in_parquet(folder, [png()]),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_picture_is_read_in_every_form(form: Callable[[Path], Data], folder: Path) -> None:
    data = form(folder)
    ((picture,),) = [read["images"] for read in loaded(data)]
    assert (picture.mode, picture.size, picture.getpixel((1, 1))) == ("RGB", (6, 4), RED)
    (outcome,) = first_rows(data, Path(data.files[0]), 10)["outcomes"]
    assert outcome["turns"][-1]["content"] == "Red."


CUT = png()[:-30]
BAD = {
    "none": None,
    "an empty text": "",
    "no file": "img/1.png",
    "cut short": uri(CUT),
    "no picture": uri(b"text"),
    "a URL": "https://example.com/0.png",
    "a number": 7,
    "one of two": ["img/0.png", "img/1.png"],
}


@pytest.mark.parametrize("picture", BAD.values(), ids=BAD.keys())
def test_a_row_whose_picture_cannot_be_read_is_left_out_and_counted(
    picture: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = in_json(folder, *[row("img/0.png")] * 9, row(picture))
    assert len(loaded(data)) == 9
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("1 of 10 rows are left out: a picture is ") and "(row 9: " in line
    assert first_rows(data, Path(data.files[0]), 10)["outcomes"][-1]["detail"] in line
    with pytest.raises(InputError, match=r"row 1 \(the first is 0\): .*; 1 of 2 rows cannot be trained"):
        loaded(in_json(folder, row("img/0.png"), row(picture)))


def test_sixteen_bits_are_scaled_to_eight(folder: Path) -> None:
    from PIL import Image

    deep = Image.new("I;16", (2, 1))
    deep.putpixel((0, 0), 32896)
    deep.save(folder / "img" / "0.png")
    ((picture,),) = [read["images"] for read in loaded(in_json(folder, row("img/0.png")))]
    assert [picture.getpixel((at, 0))[0] for at in (0, 1)] == [128, 0]


def test_a_photograph_stands_upright(folder: Path) -> None:
    from PIL import Image

    turned = Image.new("RGB", (6, 4))
    exif = turned.getexif()
    exif[0x0112] = 6  # its upper side is on the right
    turned.save(folder / "img" / "0.jpg", exif=exif)
    ((picture,),) = [read["images"] for read in loaded(in_json(folder, row("img/0.jpg")))]
    assert picture.size == (4, 6)


def talk(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    words = {"type": "text", "text": "What is it?"}
    reply = {"role": "assistant", "content": "Red."}
    return [{"role": "user", "content": [*parts, words]}, reply]


LLAVA = [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "Red."}]
IN_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "image_url of OpenAI": (
        {"messages": talk({"type": "image_url", "image_url": {"url": uri(png())}})},
        "messages",
    ),
    "image with a path": ({"messages": talk({"type": "image", "image": "img/0.png"})}, "messages"),
    "source of Anthropic": (
        {"messages": talk({"type": "image", "source": {"data": uri(png())}})},
        "messages",
    ),
    "places, and a column": ({"messages": talk({"type": "image"}), "images": ["img/0.png"]}, "images"),
    "a column alone": ({"messages": talk(), "images": "img/0.png"}, "images"),
    "marks of LLaVA": ({"messages": LLAVA, "images": "img/0.png"}, "images"),
}


@pytest.mark.parametrize(("form", "column"), IN_MESSAGES.values(), ids=IN_MESSAGES.keys())
def test_pictures_may_be_in_messages(form: dict[str, Any], column: str, folder: Path) -> None:
    (folder / "rows.jsonl").write_bytes(lines(form))
    (read,) = loaded(Data(files=[str(folder / "rows.jsonl")], messages="messages", image=column))
    assert [part["type"] for part in read["prompt"][0]["content"]] == ["image", "text"]
    assert read["images"][0].getpixel((1, 1)) == RED


def test_every_reply_of_messages_with_pictures_is_a_row_with_the_pictures_before_it(folder: Path) -> None:
    place = {"type": "image", "image": "img/0.png"}
    (folder / "rows.jsonl").write_bytes(lines({"messages": [*talk(place), *talk(place, place)]}))
    rows = loaded(Data(files=[str(folder / "rows.jsonl")], messages="messages", image="messages"))
    assert [(len(read["prompt"]), len(read["images"])) for read in rows] == [(1, 1), (3, 3)]


def test_messages_with_pictures_of_a_recipe_without_them_are_named(folder: Path) -> None:
    form = {"messages": talk({"type": "image_url", "image_url": "a.png"})}
    (folder / "rows.jsonl").write_bytes(lines(form))
    with pytest.raises(InputError, match=r"a message has a picture: write data\.image"):
        loaded(Data(files=[str(folder / "rows.jsonl")], messages="messages"))


def test_pictures_beside_rows_in_a_bucket_come_with_them(tmp_path: Path, buckets: Buckets) -> None:
    place = buckets.folder / "bucket" / "data"
    place.mkdir(parents=True)
    (place / "rows.jsonl").write_bytes(lines(row("img/0.png")))
    with ZipFile(place / "rows.jsonl.pictures.zip", "w") as archive:
        archive.writestr("img/0.png", png())
    ((picture,),) = [read["images"] for read in loaded(Data(files=["gs://bucket/data/rows.jsonl"], **KEYS))]
    assert picture.getpixel((1, 1)) == RED


def picture_recipe(tiny: Path, folder: Path, *rows: Any) -> Recipe:
    in_json(folder, *rows)
    recipe = make_recipe(folder / "recipe.yaml", tiny)
    columns = ["data.prompt=What is {name}?", "data.reply=text", "data.image=picture", "data.fields={}"]
    files = ["data.name=", f"data.files={json.dumps([str(folder / 'rows.jsonl')])}", "data.rows=null"]
    return load_recipe(str(recipe), [*columns, *files, "data.test_rows=0"])


@pytest.mark.parametrize("token", ["<image_soft_token>", "<start_of_image>"])
def test_a_text_with_the_token_of_a_picture_ends_the_run_before_it_trains(
    token: str, tiny: Path, folder: Path
) -> None:
    from finetune.dry_run import make_plan

    recipe = picture_recipe(tiny, folder, row("img/0.png"), row("img/0.png") | {"name": f"a {token}"})
    with pytest.raises(InputError, match=rf"row 1 \(the first is 0\) has {token} in a text"):
        make_plan(recipe, processes=1)


@pytest.mark.parametrize("picture", ["img/0.png", ["img/0.png", "img/0.png"]], ids=["one", "two"])
def test_rows_with_pictures_of_a_users_own_have_a_plan(picture: Any, tiny: Path, folder: Path) -> None:
    from finetune.dry_run import make_plan

    plan = make_plan(picture_recipe(tiny, folder, row(picture)), processes=1)
    assert plan.rows == 1 and "Red." in plan.shown[-1]


def test_what_a_processor_does_not_take_is_told_with_the_row(
    tiny: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune.dry_run import make_plan
    from finetune.rows import picture_check

    def refuse(rows: list[dict[str, Any]]) -> None:
        raise ValueError("one picture a row\nat most")

    monkeypatch.setattr(picture_check, "picture_batch", lambda processor: refuse)
    recipe = picture_recipe(tiny, folder, row("img/0.png"), row(["img/0.png", "img/0.png"]))
    with pytest.raises(InputError, match=r"does not take row 1 .* 2 pictures: one picture a row at most"):
        make_plan(recipe, processes=1)
