"""What a bucket or a repository holds is data: files stay in their folder, and no file runs as code.

Accounts that may write to a run's bucket must not be able to run code in a trainer.
"""

import io
import os
import pickle
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from shared.errors import one_line, visible
from shared.files import parsed_json, size_of

# The index of a sharded checkpoint's tensors, in a pickle.
INDEX = ".metadata"
# Bytes of a name on a disk. A bucket takes longer ones.
_LONGEST = 255
_METADATA = "torch.distributed.checkpoint.metadata"
# All that torch writes into an index. None of them does anything but hold values.
_CLASSES = frozenset(
    {
        ("collections", "OrderedDict"),
        ("pathlib", "PosixPath"),
        ("pathlib._local", "PosixPath"),
        ("torch", "Size"),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("torch.serialization", "_get_layout"),
        *(
            (_METADATA, name)
            for name in (
                *("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta"),
                *("TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"),
            )
        ),
    }
)


def stays_inside(name: object) -> bool:
    """Whether a name from a bucket names a file below its folder, and a disk can have it."""
    if not isinstance(name, str) or not name.isprintable() or "\\" in name:
        return False
    parts = name.split("/")
    fit = all(part not in ("", ".", "..") and len(part.encode()) <= _LONGEST for part in parts)
    return fit and not PurePosixPath(name).is_absolute()


def check_names(names: Collection[str]) -> None:
    """Raises ValueError when a folder cannot have files of these names, which a list in a bucket has."""
    if outside := [name for name in names if not stays_inside(name)]:
        raise ValueError(f"its list names the file {outside[0][:40]!r} outside of its folder")
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    if both := [name for name in names if name in folders]:
        raise ValueError(f"its list names {both[0]!r} both as a file and as a folder")


def check_files(folder: Path) -> None:
    """Raises ValueError unless the index and the tensors of a checkpoint are what their names say."""
    for index in folder.rglob(INDEX):
        check_index(index)
    for file in folder.rglob("*.safetensors"):
        _check_tensors(file)


def _check_tensors(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt"):
            pass
    except SafetensorError as error:
        raise ValueError(f"{file.name} has no tensors: {one_line(error)}") from None


def read_list(text: str | None) -> dict[str, Any]:
    """The files that a COMPLETE.json lists, by name: size and checksum, or only the size.

    Raises ValueError for another content. The names may be any.
    """
    tree = parsed_json(text or "")
    files = tree.get("files") if isinstance(tree, dict) else None
    if not isinstance(files, dict) or not all(type(size_of(saved)) is int for saved in files.values()):
        raise ValueError("lists no files")
    return files


def gains(complete: Mapping[str, Any]) -> list[str]:
    """Lines for people: the figures in a run's COMPLETE.json, before and after the training."""
    after = (complete.get("answers") or {}) | (complete.get("evaluation") or {})
    return [
        f"{visible(name.replace('_', ' '))} {after[name]:.4g}, "
        f"before the training {complete['before'][name]:.4g} ({gain:+.4g})"
        for name, gain in (complete.get("gain") or {}).items()
    ]


def check_index(file: Path) -> None:
    """Raises ValueError unless a checkpoint's index and the values beside its tensors hold no code.

    From then on torch reads no pickle with code in this process.
    """
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    with file.open("rb") as stream:
        try:
            index = _OwnClasses(stream).load()
            names = [info.relative_path for info in index.storage_data.values()]
        except Exception as error:
            raise ValueError(_no_index(file, error)) from None
    if outside := [name for name in names if not stays_inside(name)]:
        raise ValueError(f"{file.name} names the file {outside[0]!r} outside of its folder")
    try:
        _check_values(index, file.parent)
    except Exception as error:
        raise ValueError(_no_index(file, error)) from None


def _check_values(index: Any, folder: Path) -> None:
    """Read the values that are no tensors. torch keeps each in a pickle of its own."""
    import torch
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata

    for key, place in index.storage_data.items():
        if isinstance(index.state_dict_metadata[key.fqn], BytesStorageMetadata):
            with (folder / place.relative_path).open("rb") as stream:
                stream.seek(place.offset)
                torch.load(io.BytesIO(stream.read(place.length)), weights_only=True)


def _no_index(file: Path, error: Exception) -> str:
    return f"{file.name} is no index of a checkpoint: {one_line(error)}"


class _OwnClasses(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        """One of torch's own classes, or a type of numbers."""
        import torch

        if (module, name) in _CLASSES:
            return super().find_class(module, name)
        if module == "torch" and isinstance(kind := getattr(torch, name, None), torch.dtype):
            return kind
        raise ValueError(f"it asks for {module[:40]}.{name[:40]}")
