"""Files of a run that somebody else has written into its bucket: one line each."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from maxtext_driver.conversation_rows import FOLDER, RECORD, arrays, thinks
from maxtext_driver.recipe import load_recipe
from maxtext_driver.run_folder import Placement, RunFolder
from shared.errors import InputError
from shared.time_limit import NO_LIMIT, TimeLimit

# A file with a hole: it takes no room on the disk.
HUGE = 2**40
ARRAYS = ("tokens", "trained", "segments", "positions")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, "mine")
    (folder.path / FOLDER).mkdir(parents=True)
    folder.writer.begin()
    return folder


READERS: dict[str, Callable[[RunFolder], object]] = {
    "run.json": lambda run: claim(run),
    "time.json": lambda run: TimeLimit(run, NO_LIMIT),
    "attempt.json": lambda run: run.writer.replaced(),
    RECORD: thinks,
}


@pytest.mark.parametrize("name", READERS)
def test_a_record_of_any_size_is_bad_input(name: str, run: RunFolder) -> None:
    with (run.path / name).open("wb") as file:
        file.truncate(HUGE)
    with pytest.raises(InputError, match=f"{name} in the run's folder is damaged"):
        READERS[name](run)


def claim(run: RunFolder) -> None:
    run.claim(load_recipe("llama3-8b", []), Placement(workers=1))


RECORDS: dict[str, object] = {
    "a list": [1],
    "a recipe that is a text": {"recipe": "x"},
    "versions that are a list": {"recipe": {}, "versions": [1]},
    "commits that are a list": {"recipe": {}, "commits": ["x"]},
    "a commit that is a path": {"recipe": {}, "commits": {"hf://datasets/a/b/x": "../../refs"}},
    "a commit that is no text": {"recipe": {}, "commits": {"hf://datasets/a/b/x": 5}},
    "workers that are a text": {"recipe": {}, "workers": "8"},
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_of_another_form_is_bad_input(kind: str, run: RunFolder) -> None:
    run.write_text("run.json", json.dumps(RECORDS[kind]))
    with pytest.raises(InputError, match=r"run\.json .*: restore it, or "):
        claim(run)


def test_escape_codes_of_a_record_are_visible(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    claim(run)
    record = json.loads(run.read_text("run.json") or "")
    run.write_text("run.json", json.dumps(record | {"versions": {"\x1b[31mred\x07": "1"}}))
    claim(run)
    assert r"goes on with another" in (text := capsys.readouterr().out)
    assert r"\x1b[31mred\x07 (1, now None)" in text
    run.write_text("run.json", json.dumps(record | {"recipe": {"\x9b2J": 1}}))
    with pytest.raises(InputError, match=r"another .*\\x9b2J"):
        claim(run)


def npz(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def npy(shape: str, kind: str = "<i4") -> bytes:
    """An array that says a shape, without its values."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


ROWS = {
    "none": b"rows",
    "half": npz({"tokens": npy("(1, 1)") + bytes(4)})[:40],
    "other arrays": npz({"x": npy("(1, 1)") + bytes(4)}),
    "more than any memory": npz({"tokens": npy(f"({2**45},)")}),
    "more than any number": npz({"tokens": npy(f"({2**70},)")}),
    "objects": npz({"tokens": npy("(1,)", "|O")}),
    "code for a shape": npz({"tokens": npy("__import__('os').getcwd()")}),
    "a nest for a shape": npz({"tokens": npy("(" * 90)}),
    "no sequences": npz(dict.fromkeys(ARRAYS, npy("(0, 4)"))),
    "no shape": npz(dict.fromkeys(ARRAYS, npy("()") + bytes(4))),
    "other shapes": npz({name: npy(f"(1, {at + 1})") + bytes(4 * at + 4) for at, name in enumerate(ARRAYS)}),
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_that_the_driver_did_not_write_are_bad_input(kind: str, run: RunFolder) -> None:
    (run.path / FOLDER / "train.npz").write_bytes(ROWS[kind])
    with pytest.raises(InputError, match=r"train\.npz cannot be read: .*; delete the folder rows of the run"):
        arrays(run, "train")


@pytest.mark.parametrize("name", ["²", "9" * 5000, "7.part", "-1", "", " 8", "x\n"])
def test_a_folder_that_is_no_checkpoint_counts_no_steps(
    name: str, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.path / "checkpoints" / "3").mkdir(parents=True)
    # A disk takes shorter names than a bucket.
    listed = [run.path / "checkpoints" / "3", run.path / "checkpoints" / name]
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    assert run.steps_saved() == 4
