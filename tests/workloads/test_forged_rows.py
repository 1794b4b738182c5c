"""Forged rows: files of a data set that would be code to another reader are data here, or one line."""

import io
import json
import os
import pickle
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
import pytest

from finetune.rows.sources import sources_of
from finetune.settings.sections import Data
from shared.errors import InputError


class Code:
    """Makes a directory when it is unpickled."""

    def __init__(self, proof: Path):
        self.proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.proof),)


def tar_of(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for entry, data in {"0.json": b'{"text": "x"}', name: content, "../../out.json": b"{}"}.items():
            info = tarfile.TarInfo(entry)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def array_of(value: Any) -> bytes:
    stream = io.BytesIO()
    numpy.save(stream, numpy.array([value], dtype=object), allow_pickle=True)
    return stream.getvalue()


def arrays_of(value: Any) -> bytes:
    stream = io.BytesIO()
    numpy.savez(stream, a=numpy.array([value], dtype=object))
    return stream.getvalue()


def parquet_of(value: Any) -> bytes:
    """A column whose metadata says that its type is in a pickle, as old versions of pyarrow read it."""
    marks = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(value),
    }
    field = pyarrow.field("text", pyarrow.string(), metadata=marks)
    stream = io.BytesIO()
    table = pyarrow.table({"text": ["x"]}, schema=pyarrow.schema([field]))
    pyarrow.parquet.write_table(table, stream)
    return stream.getvalue()


FORMS: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "a pickle of pandas": ("train.pkl", pickle.dumps),
    "a pickle in a tar": ("train.tar", lambda value: tar_of("0.pickle", pickle.dumps(value))),
    "a pickle in a tar by its short name": ("train.tar", lambda value: tar_of("0.pyd", pickle.dumps(value))),
    "a tensor in a tar": ("train.tar", lambda value: tar_of("0.pth", pickle.dumps(value))),
    "an array in a tar": ("train.tar", lambda value: tar_of("0.npy", array_of(value))),
    "arrays in a tar": ("train.tar", lambda value: tar_of("0.npz", arrays_of(value))),
    "a type of a parquet": ("train.parquet", parquet_of),
    "a script": ("own.py", lambda value: f"import os; os.mkdir({str(value.proof)!r})".encode()),
}


@pytest.mark.parametrize("kind", FORMS)
def test_no_file_of_a_data_set_runs_code_or_is_written_outside(kind: str, tmp_path: Path) -> None:
    name, write = FORMS[kind]
    folder, proof = tmp_path / "own", tmp_path / "proof"
    folder.mkdir()
    (folder / name).write_bytes(write(Code(proof)))
    with suppress(InputError):
        for source in sources_of(Data(name=str(folder), text="text"), "train"):
            list(source.rows())
    assert not proof.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"own"}


def test_a_card_that_names_code_runs_none(tmp_path: Path) -> None:
    folder, proof = tmp_path / "own", tmp_path / "proof"
    folder.mkdir()
    (folder / "rows.jsonl").write_text(json.dumps({"text": "x"}))
    card = (
        f'---\nconfigs:\n- config_name: !!python/object/apply:os.mkdir ["{proof}"]\n  data_files: "*"\n---\n'
    )
    (folder / "README.md").write_text(card)
    with suppress(Exception):
        sources_of(Data(name=str(folder), text="text"), "train")
    assert not proof.exists()
