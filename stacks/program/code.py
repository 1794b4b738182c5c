"""A folder of code on the user's disk, as texts for a ConfigMap."""

from pathlib import Path
from typing import Final

from stacks.platform import WORKLOADS

# Kubernetes accepts 1 MiB for an object. Paths and the rest of the object need some of it.
MOST_BYTES: Final = 900_000
# Folders that no program needs, and that may be large.
_LEFT_OUT: Final = frozenset(
    (".git", ".hg", ".idea", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__")
)


def check_folder(folder: str) -> None:
    """Checks a folder of code.

    Raises:
        ValueError: If it is no folder, or if its files cannot be in a ConfigMap.
    """
    root = _path(folder)
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}; name one on this disk, such as ./my-code")
    paths = _paths(root)
    if not paths:
        raise ValueError(f"{root} has no files; name the folder of the program")
    for path in paths:
        if not path.resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{path} is a link that leads out of the folder; copy the file into it")
        if not path.is_file():
            raise ValueError(f"{path} is a link to no file; remove it, or copy what it means into the folder")
    size = sum(path.stat().st_size for path in paths)
    if size > MOST_BYTES:
        largest = max(paths, key=lambda path: path.stat().st_size)
        raise ValueError(
            f"{root} has {size / 1e6:.1f} MB, and a ConfigMap takes {MOST_BYTES / 1e6:.1f}; the largest file "
            f"is {largest.relative_to(root)}; put data into the bucket or on the Hub, or build an image with "
            "the code and set imageUri"
        )
    files_of(folder)


def files_of(folder: str) -> dict[str, str]:
    """The texts of a folder's files by their paths in it, sorted.

    Raises:
        ValueError: If a file is no text.
    """
    root = _path(folder)
    texts = {}
    for path in _paths(root):
        name = path.relative_to(root).as_posix()
        try:
            texts[name] = path.read_bytes().decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is no text; put it into the bucket or the image") from None
    return texts


def _path(folder: str) -> Path:
    """The folder, which may be written as it is from the project's folder."""
    return Path(WORKLOADS.parent, Path(folder).expanduser())


def _paths(root: Path) -> list[Path]:
    """The files of a folder, sorted, and links to files."""
    paths = []
    for path in sorted(root.iterdir()):
        if path.name in _LEFT_OUT or path.suffix == ".pyc":
            continue
        if path.is_symlink() or not path.is_dir():
            paths.append(path)
        else:
            paths += _paths(path)
    return paths
