"""Names and headers that no trainer writes, in a run's bucket: each is passed over, or told in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conversations.chat_template import in_one_line
from finetune.model.loading import load_model
from finetune.settings.sections import Model
from finetune.storage.checkpoint import MARKER, RunFolder, checkpoint_name
from finetune.storage.data_only import check_names
from finetune.storage.folder import Folder
from rehearsal.stand_ins.bucket import Buckets
from shared import files
from shared.errors import InputError, PassingError, one_line

LONG = "x" * 256
# Below the folder of a run. A bucket takes any text for a name.
NAMES = (
    *("/x", "../x", "./x", "a\\b", "\x00", "\x1b[31m", "a\nb", "\u202ex", "", LONG, "best-1/../x"),
    *("café", "cafe\u0301", "A/COMPLETE.json", "a/COMPLETE.json", "RUN.JSON", "checkpoint-٠٠٠٠٠٠٠٩-x/w"),
    *("checkpoint-00000040-20260101T000000000000/COMPLETE.json/x", "tokens/../../x", "CHECKPOINT-00000060"),
)


def save(run: RunFolder, tmp_path: Path, step: int, **contents: bytes) -> str:
    """Save a checkpoint with a file of weights, and other files in its place."""
    source = tmp_path / f"local-{step}"
    source.mkdir()
    for name, content in ({"model": tensors()} | contents).items():
        (source / f"{name}.safetensors").write_bytes(content)
    name = checkpoint_name(step)
    run.save_checkpoint(source, name)
    return name


def tensors(header: Any = None, size: int | None = None, data: int = 8) -> bytes:
    """A file of safetensors with two numbers. Its header may be another, or say another size."""
    weight = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    text = json.dumps({"w": weight} if header is None else header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + bytes(data)


@pytest.mark.usefixtures("impatient_client")
def test_objects_of_any_name_are_in_nobodys_way(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder("gs://bucket/store", "mine")
    older, newer = (save(run, tmp_path, step) for step in (20, 40))
    listed = Buckets._list

    def with_others(self: Buckets, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        page = listed(self, bucket, query)
        names = [name for name in map("store/mine/{}".format, NAMES) if name.startswith(query["prefix"])]
        page["items"] += [{**page["items"][0], "name": name} for name in names if page["items"]]
        return page

    monkeypatch.setattr(Buckets, "_list", with_others)
    assert {"\x00", "a\nb", LONG} <= run.folder.sizes().keys()
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == newer
    run.prune_checkpoints(1)
    run.prune_best(3)
    assert not (buckets.folder / "bucket" / "store" / "mine" / older).exists()
    assert {path.name for path in (tmp_path / "node").iterdir()} == {newer}


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([LONG], "outside of its folder"),
        ([f"{LONG}/w"], "outside of its folder"),
        (["é" * 128], "outside of its folder"),
        (["w", "w/v"], "names 'w' both as a file and as a folder"),
        (["w/v/u", "w/v"], "names 'w/v' both as a file and as a folder"),
    ],
)
def test_a_checkpoint_whose_names_no_disk_takes_is_told_and_passed_over(
    names: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = RunFolder(str(tmp_path / "store"), "mine")
    older, forged = (save(run, tmp_path, step) for step in (20, 40))
    run.folder.write_text(f"{forged}/{MARKER}", json.dumps({"files": dict.fromkeys(names, 1)}))
    sizes, others = Folder.sizes, {f"{forged}/{name}": 1 for name in names}
    monkeypatch.setattr(Folder, "sizes", lambda folder, _="": sizes(folder) | others)
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{forged} is damaged: ")
    assert reason in line


def test_names_that_differ_by_case_or_form_are_files_of_their_own() -> None:
    check_names(["W", "w", "caf\u00e9", "cafe\u0301", "a/w", "A/w", "x" * 255])


HEADERS: dict[str, Callable[[], bytes]] = {
    "a header of 2^60 bytes": lambda: tensors(size=2**60),
    "a header of 2^64 - 1 bytes": lambda: tensors(size=2**64 - 1),
    "a header of 100 MB": lambda: (10**8 + 8).to_bytes(8, "little") + b" " * (10**8 + 8),
    "a header that is none": lambda: tensors(header=[1]),
    "a nest": lambda: (5000).to_bytes(8, "little") + b"[" * 5000,
    "values outside of the file": lambda: tensors(data=4),
    "values before the file": lambda: tensors({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}),
    "a shape beyond all memory": lambda: tensors(
        {"w": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}
    ),
    "values of two tensors in one place": lambda: tensors(
        {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}
    ),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_checkpoint_whose_weights_are_none_is_told_and_passed_over(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(str(tmp_path / "store"), "mine")
    older = save(run, tmp_path, 20)
    forged = save(run, tmp_path, 40, model=HEADERS[kind]())
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{forged} is damaged: model.safetensors has no tensors: ")


@pytest.mark.parametrize("kind", ["a header of 2^60 bytes", "values outside of the file"])
def test_a_model_whose_weights_are_none_is_bad_input(kind: str, tiny: Path, tmp_path: Path) -> None:
    import torch

    for file in (tiny / "text-model").glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(HEADERS[kind]())
    with pytest.raises(InputError, match="cannot be loaded as a language model"):
        load_model(Model(name=str(tmp_path)), torch.device("cpu"))


def test_a_list_with_too_much_json_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(str(tmp_path / "store"), "mine")
    older, forged = (save(run, tmp_path, step) for step in (20, 40))
    marker = Path(run.folder.uri, forged, MARKER)
    monkeypatch.setattr(files, "MOST_JSON_BYTES", marker.stat().st_size)
    newest = run.newest_checkpoint()
    assert newest and newest.name == forged
    marker.write_text(marker.read_text() + " ")
    newest = run.newest_checkpoint()
    assert newest and newest.name == older


CODES = "\x1b[31mred\x07\x9b2J\u202e"
SHOWN = r"\x1b[31mred\x07\x9b2J\u202e"


def test_escape_codes_of_a_run_are_visible_in_every_line_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(str(tmp_path / "store"), "mine")
    gain = {"gain": {CODES: 1.0}, "answers": {CODES: 2.0}, "before": {CODES: 1.0}}
    run.folder.write_text(MARKER, json.dumps({"not_good": CODES, **gain}))
    assert run.ending("model").endswith(f"not good: {SHOWN}")
    assert run.gain()[0].startswith(SHOWN)
    for error in (InputError(CODES), PassingError(CODES)):
        assert str(error) == SHOWN
    assert one_line(ValueError(CODES)) == SHOWN
    run.writer.begin()
    attempt = json.loads(run.folder.read_text("attempt.json") or "")
    run.folder.write_text("attempt.json", json.dumps(attempt | {"attempt": "other", "host": CODES}))
    run.writer.replaced()
    assert f"goes on at {SHOWN}," in capsys.readouterr().out


@pytest.mark.parametrize("text", ["Ärger 、\u3000日本", "👩\u200d🚀", "two\nlines\tand a tab"])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert str(InputError(text)) == text


def test_escape_codes_of_a_row_are_visible_where_it_is_shown() -> None:
    assert in_one_line(f"<a>{CODES}") == r'"<a>\u001b[31mred\u0007\x9b2J\u202e"'
