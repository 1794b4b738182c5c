"""The rows of a recipe that are on this disk, with their pictures, as `up` uploads them."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile, ZipInfo

# What follows the name of a file of rows in the name of its pictures. The trainer looks for it.
_PICTURES = ".pictures.zip"


def uploads(file: Path, pictures: Sequence[str]) -> dict[str, Path]:
    """A file of rows, and an archive with its pictures if it has some, by their names in a stack's bucket.

    The folder there is named after a digest of all, so that other rows or pictures are other files.

    Args:
        pictures: Paths that begin at the file's folder.
    """
    digest = _digest(file, pictures)
    files = {f"data/sha256-{digest}/{file.name}": file}
    if pictures:
        files[f"data/sha256-{digest}/{file.name}{_PICTURES}"] = _archive(file, pictures, digest)
    return files


def _digest(file: Path, pictures: Sequence[str]) -> str:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    for picture in pictures:
        with (file.parent / picture).open("rb") as stream:
            digest.update(picture.encode() + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def _archive(file: Path, pictures: Sequence[str], digest: str) -> Path:
    """An archive of the pictures, the same bytes each time."""
    target = Path(tempfile.gettempdir(), "llm-stacks", f"{digest}{_PICTURES}")
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    with ZipFile(part, "w") as archive:
        for picture in pictures:
            # Without the time of the file, which is in no digest.
            archive.writestr(ZipInfo(picture), (file.parent / picture).read_bytes())
    return part.replace(target)
