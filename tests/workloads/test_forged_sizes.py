"""Objects of any size in a run's bucket, where somebody else may write: no trainer reads them whole."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from finetune.__main__ import main
from finetune.settings.sections import Model
from finetune.storage import data_files
from finetune.storage.adapter_files import CONFIG, fetch_adapter
from finetune.storage.checkpoint import MARKER, RunFolder, checkpoint_name
from finetune.storage.folder import Folder
from shared import files
from shared.errors import InputError
from shared.files import MetricsLog, read_json

# A file with a hole: it takes no room on the disk.
HUGE = 2**40


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "store"), "mine")


def enlarge(run: RunFolder, name: str, size: int = HUGE) -> None:
    """Writes a file of zeros to the run's folder."""
    run.folder.write_text(name, "")
    with Path(run.folder.uri, name).open("wb") as file:
        file.truncate(size)


def copy(run: RunFolder) -> None:
    main(["copy", "team/chat", run.folder.uri])


def merge(run: RunFolder) -> None:
    main(["merge", run.folder.uri, str(Path(run.folder.uri, "..", "merged"))])


READERS: dict[str, tuple[str, Callable[[RunFolder], object]]] = {
    "merge": ("run.json", merge),
    "copy": (MARKER, copy),
    "copy of a copy": ("source.json", copy),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_command_ends_in_one_line(kind: str, run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    name, command = READERS[kind]
    enlarge(run, name)
    command(run)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name} in the run's folder is damaged" in line


@pytest.mark.parametrize("name", ["run.json", "time.json", "attempt.json", "before.json", MARKER])
def test_a_record_of_a_run_is_bad_input(name: str, run: RunFolder) -> None:
    enlarge(run, name)
    with pytest.raises(InputError, match=f"{name} in the run's folder is damaged"):
        read_json(run.folder, name)


def test_a_record_with_too_much_json_is_bad_input(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.folder.write_text("run.json", "{}" + " " * 100)
    assert read_json(run.folder, "run.json") == {}
    monkeypatch.setattr(files, "MOST_JSON_BYTES", 100)
    with pytest.raises(InputError, match=r"run\.json in the run's folder is damaged"):
        read_json(run.folder, "run.json")


@pytest.mark.parametrize("content", ["", "\udcff"])
def test_a_log_that_is_none_begins_anew_and_says_so(
    content: str, run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    enlarge(run, MetricsLog.FILE)
    if content:
        Path(run.folder.uri, MetricsLog.FILE).write_bytes(content.encode(errors="surrogateescape"))
    log = MetricsLog(run.folder, 20)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{MetricsLog.FILE} is no log, it begins anew: ")
    log.append({"step": 21})
    assert json.loads(run.folder.read_text(MetricsLog.FILE) or "") == {"step": 21}


def test_a_checkpoint_with_a_huge_list_is_passed_over(run: RunFolder, tmp_path: Path) -> None:
    source = tmp_path / "local"
    source.mkdir()
    (source / "weights").write_text("x")
    older, newer = checkpoint_name(20), checkpoint_name(40)
    for name in (older, newer):
        run.save_checkpoint(source, name)
    enlarge(run, f"{newer}/{MARKER}")
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older


def test_an_object_that_arrives_larger_than_its_list_is_given_up(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one does that is stored compressed: the bucket names the smaller size."""
    source = tmp_path / "local"
    source.mkdir()
    (source / "weights").write_text("x")
    older, newer = checkpoint_name(20), checkpoint_name(40)
    for name in (older, newer):
        run.save_checkpoint(source, name)
    enlarge(run, f"{newer}/weights", 2**30)
    sizes = Folder.sizes
    monkeypatch.setattr(
        Folder, "sizes", lambda folder, name="": sizes(folder, name) | {f"{newer}/weights": 1}
    )
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.name == older
    assert f"{newer} is damaged: " in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "node").iterdir()] == [older]


class Long(io.RawIOBase):
    """An object that is some pieces long."""

    pieces = 4

    def read(self, size: int = -1) -> bytes:
        """A piece, or the end."""
        self.pieces -= 1
        return b"0" * max(size, 0) if self.pieces >= 0 else b""


def test_no_piece_is_fetched_after_the_size_of_an_object(tmp_path: Path) -> None:
    folder, stream = Folder(str(tmp_path)), Long()
    folder._files = SimpleNamespace(open_input_stream=lambda _: stream)
    with pytest.raises(ValueError, match="arrives with other bytes than its 1"):
        folder.download("object", tmp_path / "target", 1)
    assert stream.pieces == Long.pieces - 1
    assert not (tmp_path / "target").exists()


def test_a_result_that_is_larger_than_its_list_is_not_downloaded(run: RunFolder, tmp_path: Path) -> None:
    enlarge(run, "adapter/a")
    run.folder.write_text(MARKER, json.dumps({"adapter": {"a": 5}}))
    (tmp_path / "target").mkdir()
    with pytest.raises(InputError, match="is not what was published"):
        run.fetch_result("adapter", tmp_path / "target")
    assert [*(tmp_path / "target").iterdir()] == []


def test_a_huge_configuration_of_an_adapter_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    adapter = Folder(str(tmp_path / "adapter"))
    adapter.write_text(CONFIG, "{}" + " " * 100)
    adapter.write_text("adapter_model.safetensors", "x")
    with pytest.raises(InputError, match="is no configuration of an adapter"):
        fetch_adapter(Model(name="team/chat", adapter=adapter.uri))


def test_an_archive_of_pictures_that_the_disk_has_no_room_for_is_not_unpacked(tmp_path: Path) -> None:
    archive, target = tmp_path / "rows.pictures.zip", tmp_path / "target"
    with ZipFile(archive, "w", ZIP_DEFLATED) as opened:
        opened.writestr("a.png", bytes(1000))
    content = archive.read_bytes()
    # The entry says that it unpacks to almost 4 GiB, a thousand times over.
    with ZipFile(archive, "w", ZIP_DEFLATED) as opened:
        for number in range(1000):
            opened.writestr(f"{number}.png", bytes(1000))
    content = archive.read_bytes().replace((1000).to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"unpacks to \d+ GB of pictures, and the disk has room for \d+"):
        data_files._fetch_pictures(str(archive), target)
    assert [*target.iterdir()] == []


@pytest.mark.parametrize("content", [b"no archive", b"PK\x05\x06" + bytes(5)])
def test_an_archive_of_pictures_that_is_none_is_bad_input(content: bytes, tmp_path: Path) -> None:
    archive, target = tmp_path / "rows.pictures.zip", tmp_path / "target"
    archive.write_bytes(content)
    with pytest.raises(InputError, match="is no archive of pictures"):
        data_files._fetch_pictures(str(archive), target)
    assert [*target.iterdir()] == []


def test_an_archive_of_pictures_writes_no_file_outside(tmp_path: Path) -> None:
    archive, target = tmp_path / "rows.pictures.zip", tmp_path / "a" / "b" / "target"
    with ZipFile(archive, "w") as opened:
        for name in ("../out", "/out", "a/../../../out", "C:/out", "fine.png"):
            opened.writestr(name, "x")
    data_files._fetch_pictures(str(archive), target)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {archive.name, "out", "fine.png"}
    assert all(target in path.parents for path in tmp_path.rglob("*") if path.name in ("out", "fine.png"))
