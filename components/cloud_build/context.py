"""The files for an image build, in one archive that has the same bytes on every machine."""

import gzip
import hashlib
import io
import re
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pulumi
from docker.utils.build import exclude_paths

from components.base.fingerprint import fingerprint

# Relative to the project, where `pulumi` runs, because the state records the path of the uploaded file.
ARCHIVES: Final = Path(".build")

_BASE: Final = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)
# Python writes these when the code beside the Dockerfile runs. They are no reason for another build.
_ALWAYS_IGNORED: Final = "**/__pycache__"


def base_image(folder: Path) -> str:
    """The image that `ARG BASE` of a folder's Dockerfile names. Empty without such a line."""
    base = _BASE.search((folder / "Dockerfile").read_text())
    return base[1] if base else ""


class BuildContext:
    """The files of a folder with a Dockerfile, except those that its `.dockerignore` leaves out.

    Args:
        texts: Texts that replace those of files, by path in the folder.

    Attributes:
        digest: Digest of the path, content and executable bit of every file.
        base: The image that the Dockerfile's `ARG BASE` names. Empty without such a line.

    Raises:
        ValueError: If the folder has no Dockerfile, or a text would replace a file that is not sent.
    """

    def __init__(self, folder: Path, texts: Mapping[str, str] | None = None) -> None:
        if not (folder / "Dockerfile").is_file():
            raise ValueError(f"{folder} has no Dockerfile to build an image from")
        self.base = base_image(folder)
        ignore = folder / ".dockerignore"
        lines = ignore.read_text().splitlines() if ignore.is_file() else []
        patterns = [_ALWAYS_IGNORED, *(line for line in lines if not line.startswith("#"))]
        paths, texts = sorted(exclude_paths(folder, patterns)), texts or {}
        if missing := texts.keys() - paths:
            raise ValueError(f"the build of {folder} does not get {', '.join(sorted(missing))}")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            added = {path: _add(archive, folder / path, path, texts.get(path)) for path in paths}
        self._tar = packed.getvalue()
        self.digest = fingerprint({path: content for path, content in added.items() if content})

    def write(self, name: str) -> Path:
        """Writes a `.tar.gz` under `ARCHIVES` and returns its path.

        Raises:
            pulumi.RunError: If the archive cannot be written.
        """
        target = ARCHIVES / f"{name}.tar.gz"
        try:
            ARCHIVES.mkdir(parents=True, exist_ok=True)
            with (
                tempfile.NamedTemporaryFile(dir=ARCHIVES, delete=False) as file,
                gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
            ):
                packed.write(self._tar)
            # Another `pulumi` may be reading the same archive, so it is replaced in one step.
            Path(file.name).replace(target)
        except OSError as error:
            raise pulumi.RunError(
                f"{ARCHIVES}/ cannot be written ({error.strerror}): run from a copy of the project that can "
                "be written to, on a disk with room for the files of image builds"
            ) from None
        return target


def _add(archive: tarfile.TarFile, file: Path, path: str, text: str | None) -> tuple[str, str] | None:
    """Adds a file or link without owners, times and other facts that differ between machines.

    `archive.add` would also write hard links as links. Folders need no entry of their own.

    Args:
        text: Content in place of the file's. None for the file's own.

    Returns:
        The kind and the content of the entry. None for a folder.
    """
    entry = tarfile.TarInfo(path)
    if file.is_symlink() and text is None:
        entry.type, entry.linkname = tarfile.SYMTYPE, str(file.readlink())
        archive.addfile(entry)
        return "link", entry.linkname
    if not file.is_file():
        return None
    content = file.read_bytes() if text is None else text.encode()
    executable = file.stat().st_mode & 0o100
    entry.size = len(content)
    entry.mode = 0o755 if executable else 0o644
    archive.addfile(entry, io.BytesIO(content))
    return "executable" if executable else "file", hashlib.sha256(content).hexdigest()
