"""The files that an image is built from, in one archive with the same bytes on every machine."""

import gzip
import hashlib
import io
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import pulumi
from docker.utils.build import exclude_paths

from components.fingerprint import fingerprint

# Relative to the project, where `pulumi` runs: the state remembers the path of what was uploaded.
ARCHIVES: Final = Path(".build")

# Python writes it when the code beside the Dockerfile is run; that is no reason to build again.
_ALWAYS_IGNORED: Final = "**/__pycache__"


class BuildContext:
    """A folder with a Dockerfile, without what its `.dockerignore` leaves out.

    Attributes:
        digest: Of every file's path, content and whether it is executable.

    Raises:
        ValueError: When there is no Dockerfile in it.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "Dockerfile").is_file():
            raise ValueError(f"{folder} has no Dockerfile to build an image from")
        ignore = folder / ".dockerignore"
        lines = ignore.read_text().splitlines() if ignore.is_file() else []
        patterns = [_ALWAYS_IGNORED, *(line for line in lines if not line.startswith("#"))]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            added = {
                path: _add(archive, folder / path, path) for path in sorted(exclude_paths(folder, patterns))
            }
        self._tar = packed.getvalue()
        self.digest = fingerprint({path: what for path, what in added.items() if what})

    def write(self, name: str) -> Path:
        """Writes a `.tar.gz` under `ARCHIVES` and returns its path.

        Raises:
            pulumi.RunError: Where nothing can be written.
        """
        target = ARCHIVES / f"{name}.tar.gz"
        try:
            ARCHIVES.mkdir(parents=True, exist_ok=True)
            with (
                tempfile.NamedTemporaryFile(dir=ARCHIVES, delete=False) as file,
                gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
            ):
                packed.write(self._tar)
            # Another `pulumi` may be reading the same archive.
            Path(file.name).replace(target)
        except OSError as error:
            raise pulumi.RunError(
                f"{ARCHIVES}/ cannot be written ({error.strerror}): run from a copy of the project that can "
                "be written to, with room for what images are built from"
            ) from None
        return target


def _add(archive: tarfile.TarFile, file: Path, path: str) -> tuple[str, str] | None:
    """Adds a file or link without what differs between machines, such as owners and times.

    `archive.add` would also write hard links as links. Folders need no entry of their own.

    Returns:
        What the entry is and what is in it; None for a folder.
    """
    entry = tarfile.TarInfo(path)
    if file.is_symlink():
        entry.type, entry.linkname = tarfile.SYMTYPE, str(file.readlink())
        archive.addfile(entry)
        return "link", entry.linkname
    if not file.is_file():
        return None
    content, executable = file.read_bytes(), file.stat().st_mode & 0o100
    entry.size = len(content)
    entry.mode = 0o755 if executable else 0o644
    archive.addfile(entry, io.BytesIO(content))
    return "executable" if executable else "file", hashlib.sha256(content).hexdigest()
