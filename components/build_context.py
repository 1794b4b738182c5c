"""The files that an image is built from, as one archive that is the same wherever it is made."""

import gzip
import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from components.fingerprint import fingerprint

# Relative to the project, where `pulumi` runs: the state remembers the path of what was uploaded.
ARCHIVES: Final = Path(".build")

_IGNORE_FILE: Final = ".dockerignore"
# Written by running the code beside the Dockerfile, so never a reason to build again.
_ALWAYS_IGNORED: Final = ("**/__pycache__",)


class BuildContext:
    """A folder with a Dockerfile, without what its `.dockerignore` leaves out.

    Args:
        folder: The folder.

    Attributes:
        paths: Paths below the folder of all files that are sent, sorted.
        digest: Of every sent file's path, content and whether it is executable.

    Raises:
        ValueError: When there is no Dockerfile in it.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "Dockerfile").is_file():
            raise ValueError(f"{folder} has no Dockerfile to build an image from")
        self._folder = folder
        self.paths = sorted(_sent(folder))
        self.digest = fingerprint({path: self._description(path) for path in self.paths})

    def archive(self, name: str) -> Path:
        """Writes a `.tar.gz` under `ARCHIVES` and returns its path.

        Equal files give equal bytes: order, owners, times and the mode but for "executable" are fixed.

        Args:
            name: Name of the file, without its suffix.
        """
        ARCHIVES.mkdir(parents=True, exist_ok=True)
        target = ARCHIVES / f"{name}.tar.gz"
        with (
            tempfile.NamedTemporaryFile(dir=ARCHIVES, delete=False) as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for path in self.paths:
                self._add(archive, path)
        # Another `pulumi` may be reading the same archive.
        Path(file.name).replace(target)
        return target

    def _add(self, archive: tarfile.TarFile, path: str) -> None:
        """Not `archive.add`, which takes owners and times along, and makes links of hard links."""
        file = self._folder / path
        entry = tarfile.TarInfo(path)
        if file.is_symlink():
            entry.type, entry.linkname = tarfile.SYMTYPE, str(file.readlink())
            archive.addfile(entry)
            return
        content = file.read_bytes()
        entry.size = len(content)
        entry.mode = 0o755 if _executable(file) else 0o644
        archive.addfile(entry, io.BytesIO(content))

    def _description(self, path: str) -> Sequence[str]:
        file = self._folder / path
        if file.is_symlink():
            return "link", str(file.readlink())
        kind = "executable" if _executable(file) else "file"
        return kind, hashlib.sha256(file.read_bytes()).hexdigest()


def _executable(file: Path) -> bool:
    return bool(file.stat().st_mode & 0o100)


def _sent(folder: Path) -> Iterator[str]:
    """Docker reads the Dockerfile and `.dockerignore` even where they are ignored."""
    rules = _rules(folder)
    exceptions = any(kept for _, kept in rules)
    for parent, folders, files in os.walk(folder):
        below = Path(parent).relative_to(folder)
        paths = {name: (below / name).as_posix() for name in (*folders, *files)}
        for name in files + [each for each in folders if Path(parent, each).is_symlink()]:
            path = paths[name]
            if path in ("Dockerfile", _IGNORE_FILE) or not _ignored(path, rules):
                yield path
        if not exceptions:
            folders[:] = [name for name in folders if not _ignored(paths[name], rules)]


def _rules(folder: Path) -> list[tuple[re.Pattern[str], bool]]:
    """Pattern, and whether what it matches is kept (`!`); the last that matches decides.

    https://docs.docker.com/build/concepts/context/#dockerignore-files
    """
    file = folder / _IGNORE_FILE
    lines = file.read_text().splitlines() if file.is_file() else []
    rules = []
    for line in (*_ALWAYS_IGNORED, *lines):
        text = "" if line.startswith("#") else line.strip()
        kept = text.startswith("!")
        pattern = os.path.normpath(text.removeprefix("!").strip() or ".").lstrip("/")
        if pattern not in ("", "."):
            rules.append((_regex(pattern), kept))
    return rules


def _ignored(path: str, rules: list[tuple[re.Pattern[str], bool]]) -> bool:
    ignored = False
    for pattern, kept in rules:
        if ignored == kept and pattern.fullmatch(path):
            ignored = not kept
    return ignored


_WILDCARDS: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[[^]]+\]|\\?.")


def _regex(pattern: str) -> re.Pattern[str]:
    """A pattern means a path and everything below it; `*` and `?` stop at a slash, `**` does not."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

    def translate(found: re.Match[str]) -> str:
        word = found[0]
        if word in words:
            return words[word]
        return word if word.startswith("[") and len(word) > 1 else re.escape(word[-1])

    return re.compile(f"{_WILDCARDS.sub(translate, pattern)}(?:/.*)?", re.DOTALL)
