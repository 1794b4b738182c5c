"""The user's own files of rows, on a disk or in a bucket: downloaded, and known by their version."""

import re
import zlib
from pathlib import Path, PurePosixPath
from shutil import disk_usage
from zipfile import BadZipFile, ZipFile

from finetune.settings.sections import PICTURES, Data
from finetune.storage.folder import Folder
from shared.errors import InputError, one_line
from shared.files import written_whole

# The folder of a file that a stack uploaded. An object that comes back after a `destroy` has another
# generation and the same bytes.
BY_CONTENT = re.compile(r"/(sha256-[0-9a-f]{16})/")


def version(file: str) -> str:
    """FILE#VERSION. The version of an object is its generation, that of a file on a disk its checksum."""
    folder = Folder(file)
    number = folder.first_access(folder.version)
    if number is None:
        raise InputError(f"data file {file} does not exist")
    by_content = BY_CONTENT.search(file)
    return f"{file}#{by_content[1] if by_content else number}"


def at_hand(data: Data) -> Data:
    """The same with its files on this disk, named after them, and their versions as its revision.

    Raises InputError for a file that has changed.
    """
    files, versions = [], []
    for file in data.files:
        now = version(file)
        if data.revision and now not in data.revision:
            raise InputError(
                f"data file {file} has changed since the run began: put back what it was, or give this one a "
                "--run of its own"
            )
        files.append(_fetched(file, now) if file.startswith("gs://") else file)
        versions.append(now)
    changes = {"name": data.title, "revision": ", ".join(versions) or data.revision}
    return data.with_files(files).model_copy(update=changes)


def _fetched(file: str, now: str) -> str:
    from datasets.config import HF_DATASETS_CACHE

    folder, target = Folder(file), Path(HF_DATASETS_CACHE, now.removeprefix("gs://"), Path(file).name)
    if not target.exists():
        _fetch_pictures(f"{file}{PICTURES}", target.parent)
        with written_whole(target) as part:
            folder.first_access(lambda: folder.download("", part))
    return str(target)


def _fetch_pictures(file: str, target: Path) -> None:
    """Unpack the pictures of a file of rows, if they are beside it."""
    folder = Folder(file)
    if folder.first_access(folder.version) is None:
        return
    target.mkdir(parents=True, exist_ok=True)
    archive = target / PurePosixPath(file).name
    with written_whole(archive) as part:
        folder.first_access(lambda: folder.download("", part))
    try:
        with ZipFile(archive) as opened:
            # No entry is unpacked to more bytes than it says.
            unpacked, disk = sum(entry.file_size for entry in opened.infolist()), disk_usage(target)
            # A disk in memory may not say how large it is.
            if disk.total and unpacked > disk.free:
                raise InputError(
                    f"{file} unpacks to {unpacked / 1e9:.0f} GB of pictures, and the disk has room for "
                    f"{disk.free / 1e9:.0f}"
                )
            opened.extractall(target)
    except (BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise InputError(f"{file} is no archive of pictures: {one_line(error)}") from error
    finally:
        archive.unlink()
