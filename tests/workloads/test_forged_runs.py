"""Forged runs: a writer to the bucket changes no file outside of a run, and runs no code."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as shards
from conftest import ROOT

from finetune.__main__ import main
from finetune.model.loading import config_in_cache, load_processor
from finetune.settings.sections import Model
from finetune.storage.checkpoint import MARKER, RunFolder, checkpoint_name
from finetune.storage.data_only import check_index, stays_inside
from finetune.storage.folder import Folder
from shared.errors import InputError
from shared.files import MetricsLog
from shared.remembered import remembered
from shared.time_limit import NO_LIMIT, TimeLimit

SHARDS = "pytorch_model_fsdp_0"
INDEX = f"{SHARDS}/.metadata"
# Few enough levels for the parser, and too many for what compares and prints.
NEST: list[Any] = []
for _ in range(400):
    NEST = [NEST]
OUTSIDE = ("../planted", "a/../../planted", "/planted", "a//b", "./a", "a\\b", "a\nb", "")


class Code:
    """Makes a directory when it is unpickled."""

    def __init__(self, proof: Path):
        self.proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.proof),)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "store"), "mine")


def save(run: RunFolder, tmp_path: Path, step: int, value: object = 0.5) -> Path:
    """Save a checkpoint of several processes, and return its directory in the store."""
    source = tmp_path / f"local-{step}"
    weights = {"weight": torch.full((2, 2), float(step)), "value": value}
    shards.save(weights, checkpoint_id=source / SHARDS, no_dist=True)
    name = checkpoint_name(step)
    run.save_checkpoint(source, name)
    return Path(run.folder.uri, name)


def forge(run: RunFolder, checkpoint: Path, changes: dict[str, bytes]) -> None:
    """Write files of a checkpoint and list them with their sizes and checksums, as any writer can."""
    for name, content in changes.items():
        (checkpoint / name).write_bytes(content)
    paths = [path for path in checkpoint.rglob("*") if path.is_file() and path.name != MARKER]
    run.complete_checkpoint(checkpoint.name, run._uploaded(paths, checkpoint, checkpoint.name))


def with_file_of(index: bytes, name: str) -> bytes:
    """An index whose values lie in another file."""
    metadata = pickle.loads(index)
    for info in metadata.storage_data.values():
        info.relative_path = name
    return pickle.dumps(metadata)


FORGED_LISTS: dict[str, str] = {
    "no JSON": '{"files": {',
    "a list": "[]",
    "a list of files": '{"files": ["a"]}',
    "a size that is a text": '{"files": {"a": "1"}}',
    "no size": '{"files": {"a": {"sha256": ""}}}',
    "a nest": "[" * 100_000,
}
FORGED_INDEXES: dict[str, Callable[[bytes, Path], bytes]] = {
    "code": lambda _, proof: pickle.dumps(Code(proof)),
    "code of a dotted name": lambda _, proof: b"\x80\x04\x8c\x05torch\x8c\tos.system\x93\x8c\x04true\x85R.",
    "no pickle": lambda _, proof: b"x" * 100,
    "other values": lambda _, proof: pickle.dumps({"a": 1}),
    "a file outside": lambda index, _: with_file_of(index, "../../../planted"),
}


def test_the_index_of_a_checkpoint_of_several_processes_is_accepted(run: RunFolder, tmp_path: Path) -> None:
    checkpoint = save(run, tmp_path, 20)
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == checkpoint.name
    loaded = {"weight": torch.zeros(2, 2), "value": 0.0}
    shards.load(loaded, checkpoint_id=tmp_path / "node" / fetched.name / SHARDS, no_dist=True)
    assert loaded["weight"].tolist() == [[20, 20], [20, 20]]
    assert loaded["value"] == 0.5


@pytest.mark.parametrize("kind", FORGED_INDEXES)
def test_an_index_that_is_not_torchs_own_is_told_and_never_loaded(
    kind: str, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, forged, proof = save(run, tmp_path, 20), save(run, tmp_path, 40), tmp_path / "proof"
    index = FORGED_INDEXES[kind]((forged / INDEX).read_bytes(), proof)
    forge(run, forged, {INDEX: index})
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older.name
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{forged.name} is damaged: .metadata ")
    assert not proof.exists()
    assert not (tmp_path / "node" / forged.name).exists()


def test_a_value_of_a_checkpoint_that_is_code_is_told_and_does_not_run(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, proof = save(run, tmp_path, 20), tmp_path / "proof"
    forged = save(run, tmp_path, 40, Code(proof))
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older.name
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{forged.name} is damaged: .metadata is no index")
    assert not proof.exists()


def test_a_value_that_is_code_does_not_run_after_an_index_was_checked(run: RunFolder, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    code = save(run, tmp_path, 20, Code(proof)) / SHARDS
    check_index(save(run, tmp_path, 40) / INDEX)
    with pytest.raises(BaseException, match="Weights only load failed"):
        shards.load({"value": 0.0}, checkpoint_id=code, no_dist=True)
    assert not proof.exists()


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_checkpoint_that_lists_a_file_outside_of_its_folder_is_told_and_writes_none(
    name: str,
    run: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    older, forged = save(run, tmp_path, 20), save(run, tmp_path, 40)
    (forged / MARKER).write_text(json.dumps({"files": {name: 1}}))
    # The names of a bucket's objects are any texts.
    sizes = Folder.sizes
    monkeypatch.setattr(Folder, "sizes", lambda folder, _="": sizes(folder) | {f"{forged.name}/{name}": 1})
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older.name
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{forged.name} is damaged: its list names the file {name!r} outside")
    assert [path.name for path in (tmp_path / "node").iterdir()] == [older.name]
    assert not stays_inside(name)


@pytest.mark.parametrize("kind", FORGED_LISTS)
def test_a_checkpoint_whose_list_is_none_is_passed_over(kind: str, run: RunFolder, tmp_path: Path) -> None:
    older, forged = save(run, tmp_path, 20), save(run, tmp_path, 40)
    (forged / MARKER).write_text(FORGED_LISTS[kind])
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older.name


def test_a_link_in_a_checkpoint_brings_no_other_file(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(run, tmp_path, 20)
    forged, other = save(run, tmp_path, 40), tmp_path / "other"
    file = forged / SHARDS / "__0_0.distcp"
    other.write_bytes(bytes(file.stat().st_size))
    file.unlink()
    file.symlink_to(other)
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.step == 20
    assert "has other bytes than were saved" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../planted", "/planted", "a/../../planted", "folder/planted"])
def test_a_result_that_lists_a_file_outside_of_it_is_refused(
    name: str, run: RunFolder, tmp_path: Path
) -> None:
    run.folder.write_text("adapter/planted", "x")
    run.folder.write_text(MARKER, json.dumps({"adapter": {name: 1}}))
    (tmp_path / "target").mkdir()
    with pytest.raises(InputError, match=f"names a file outside of adapter: {name!r}"):
        run.fetch_result("adapter", tmp_path / "target")
    assert [*(tmp_path / "target").iterdir()] == []


def test_a_link_in_a_result_brings_no_other_file(run: RunFolder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("of the machine")
    run.folder.write_text("adapter/a", "x")
    file = Path(run.folder.uri, "adapter", "a")
    file.unlink()
    file.symlink_to(other)
    run.folder.write_text(MARKER, json.dumps({"adapter": {"a": other.stat().st_size}}))
    (tmp_path / "target").mkdir()
    with pytest.raises(InputError, match="names a file outside of adapter: 'a'"):
        run.fetch_result("adapter", tmp_path / "target")
    assert [*(tmp_path / "target").iterdir()] == []


@pytest.mark.parametrize("size", [0, 2, -1, 1e9, "1", None, [1]])
def test_a_result_of_another_size_than_its_list_says_is_refused(
    size: object, run: RunFolder, tmp_path: Path
) -> None:
    run.folder.write_text("adapter/a", "x")
    run.folder.write_text(MARKER, json.dumps({"adapter": {"a": size}}))
    (tmp_path / "target").mkdir()
    with pytest.raises(InputError, match="is not what was published"):
        run.fetch_result("adapter", tmp_path / "target")


RECORDS: dict[str, object] = {
    "a list": [],
    "no recipe": {"workers": 1},
    "a recipe that is a text": {"recipe": "x"},
    "another recipe": {"recipe": {"model": {"name": "../.."}}},
    "a commit that is a path": {"recipe": {}, "commits": {"model": "../../refs"}},
    "a commit of another key": {"recipe": {}, "commits": {"__class__": "0" * 40}},
    "workers that are a text": {"recipe": {}, "workers": "8"},
    "a day that is a list": {"recipe": {}, "day": ["2026-01-01"]},
    "versions that are a text": {"recipe": {}, "versions": "1"},
    "half of a character": {"recipe": {}, "day": "\ud800"},
    "a nest that the parser takes": {"recipe": {"data": NEST}},
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_merge_of_a_forged_run_ends_in_one_line(
    kind: str, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.folder.write_text("run.json", json.dumps(RECORDS[kind]))
    assert main(["merge", run.folder.uri, str(tmp_path / "merged")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "run.json" in line
    assert not (tmp_path / "merged").exists()


COPIES: dict[str, dict[str, str]] = {
    "a list": {MARKER: "[]"},
    "a nest": {MARKER: "[" * 100_000},
    "no commit": {MARKER: '{"model": "x"}'},
    "a commit that is a path": {MARKER: '{"commit": "../../refs"}'},
    "a source that is a path": {"source.json": '{"commit": "../../refs"}'},
    "a source that is a list": {"source.json": '{"commit": ["a"]}'},
    "positions that are a text": {
        MARKER: json.dumps({"commit": "0" * 40}),
        "model/config.json": '{"max_position_embeddings": "x"}',
    },
    "heads that are a list": {
        MARKER: json.dumps({"commit": "0" * 40}),
        "model/config.json": '{"text_config": {"num_attention_heads": [1]}}',
    },
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_forged_copy_of_a_model_ends_in_one_line_and_asks_the_hub_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in COPIES[kind].items():
        Folder(str(tmp_path / "copy")).write_text(name, text)
    assert main(["copy", "team/chat", str(tmp_path / "copy"), "--max-model-len=9"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ".json" in line
    assert {path.name for path in tmp_path.iterdir()} == {"copy"}


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_a_model_does_not_run_and_nobody_is_asked_whether_it_may(
    file: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, proof = tmp_path / "model", tmp_path / "proof"
    shutil.copytree(tiny / "text-model", folder)
    own = {"AutoConfig": "own.Own", "AutoTokenizer": ["own.Own", None]}
    tree = json.loads((folder / file).read_text()) | {"model_type": "own", "auto_map": own}
    (folder / file).write_text(json.dumps(tree | {"tokenizer_class": "Own"}))
    (folder / "own.py").write_text(f"import os\nos.mkdir({str(proof)!r})\nclass Own: ...\n")
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question="": asked.append(question) or "y")
    with suppress(InputError):
        load_processor(str(folder), pictures=False)
    if file == "config.json":
        with pytest.raises(InputError, match="cannot be loaded"):
            config_in_cache(Model(name=str(folder)))
    assert not asked
    assert not proof.exists()


# Files of a run that hold what other tries did, and who reads them.
NOTES: dict[str, tuple[str, object, Callable[[RunFolder], object]]] = {
    "seconds that are a text": ("time.json", {"seconds": "9"}, lambda run: TimeLimit(run.folder, NO_LIMIT)),
    "negative seconds": ("time.json", {"seconds": -1e9}, lambda run: TimeLimit(run.folder, NO_LIMIT)),
    "no number of seconds": (
        "time.json",
        {"seconds": float("nan")},
        lambda run: TimeLimit(run.folder, NO_LIMIT),
    ),
    "a nest of seconds": ("time.json", {"seconds": NEST}, lambda run: TimeLimit(run.folder, NO_LIMIT)),
    "a reason that is a list": ("ended.json", {"reason": [1]}, lambda run: remembered(run.folder)),
    "an attempt that is a list": ("attempt.json", {"attempt": [1]}, lambda run: run.writer.replaced()),
    "a host that is a table": (
        "attempt.json",
        {"attempt": "x", "host": {}},
        lambda run: run.writer.replaced(),
    ),
    "figures that are texts": ("before.json", {"exact": "1"}, RunFolder.before),
    "a gain that is a text": (MARKER, {"gain": {"exact": "1"}}, RunFolder.gain),
    "a gain without figures": (MARKER, {"gain": {"exact": 1.0}}, RunFolder.gain),
    "a nest beside the figures": (MARKER, {"other": json.loads("[" * 150 + "]" * 150)}, RunFolder.gain),
    "words that are a number": (MARKER, {"not_good": 5}, lambda run: run.ending("model")),
    "words with half of a character": (MARKER, {"not_good": "\ud800"}, lambda run: run.ending("model")),
}


@pytest.mark.parametrize("kind", NOTES)
def test_a_forged_note_of_another_try_is_bad_input(kind: str, run: RunFolder) -> None:
    name, content, read = NOTES[kind]
    run.writer.begin()
    run.folder.write_text(name, json.dumps(content))
    with pytest.raises(InputError, match=name):
        read(run)


@pytest.mark.parametrize("line", ['{"step": 1e999}', "[" * 100_000, '{"step": null}', "7", '{"step": "x"}'])
def test_a_forged_line_of_the_log_is_left_out(line: str, run: RunFolder) -> None:
    run.folder.write_text("metrics.jsonl", f'{{"step": 1}}\n{line}\n')
    log = MetricsLog(run.folder, 20)
    log.flush()
    assert run.folder.read_text("metrics.jsonl") == '{"step": 1}\n'


@pytest.mark.parametrize("image", ["finetune", "maxtext"])
def test_no_start_in_an_image_runs_a_file_of_a_home_folder(image: str) -> None:
    assert "PYTHONNOUSERSITE=1" in (ROOT / "workloads" / image / "Dockerfile").read_text().split()
