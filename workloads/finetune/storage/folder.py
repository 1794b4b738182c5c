"""A directory in a bucket (gs://...) or on a disk, through pyarrow.

Objects are read and written as streams and no metadata of the bucket is requested, so a service account that
may only read and write objects is enough.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from pyarrow import NativeFile, fs

from shared.errors import InputError, PassingError, one_line
from shared.files import bounded_text, remove_stale_parts, written_whole
from shared.patience import BUCKET_REMEDY, GOES_ON, LIMIT, RETRY_BUDGET, RetryBudget

T = TypeVar("T")

# A run's or a checkpoint's list of files, which is written last.
MARKER = "COMPLETE.json"

# For how long Google's client retries, in silence, a request that is refused for a while, as by 503. A start
# soon says why it waits. Later another try would cost the steps since the newest checkpoint.
FIRST_RETRY_LIMIT = timedelta(minutes=1)
RETRY_LIMIT = timedelta(seconds=LIMIT)
# For a file that is written again soon, while GPUs wait.
PROGRESS_RETRY_LIMIT = timedelta(seconds=10)


class Folder:
    """A directory, and files by their path in it. No reader sees a text file half written.

    A bucket that is out of order is asked again for 8 minutes, one request at a time. Google's client retries
    what 429 and 5xx refuse. `Folder` retries what 401 and 403 refuse, since roles and identities come and go
    while a run trains. After that a method raises PassingError.
    """

    def __init__(self, uri: str):
        """Raises InputError when `uri` is neither gs:// nor a path."""
        self._first, _ = _filesystem(uri.rstrip("/"), FIRST_RETRY_LIMIT)
        self._later, self.path = _filesystem(uri.rstrip("/"), RETRY_LIMIT)
        self._hasty, _ = _filesystem(uri.rstrip("/"), PROGRESS_RETRY_LIMIT)
        self._files = self._later
        self._local = isinstance(self._files, fs.LocalFileSystem)
        self.uri = self.path if self._local else uri.rstrip("/")

    def first_access(self, action: Callable[[], T]) -> T:
        """Run `action`, and wait for a bucket that does not answer yet: rights and identity may be new.

        Raises:
            InputError: The bucket or directory does not exist, or the disk cannot be used.
            PassingError: The time to wait is up.
            OSError: The disk is full.
        """
        self._files = self._first
        try:
            return RETRY_BUDGET.call(f"storage {self.uri}", action, self._may_pass, BUCKET_REMEDY)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise
            raise InputError(f"storage {self.uri} cannot be used: {one_line(error)}") from error
        finally:
            self._files = self._later

    def _may_pass(self, error: BaseException) -> bool:
        # pyarrow raises FileNotFoundError for 404, ValueError for 400, PermissionError for 401 and 403. Any
        # other OSError stands for 429, 5xx or a metadata server that does not answer.
        return not self._local and isinstance(error, OSError) and not isinstance(error, FileNotFoundError)

    def patiently(self, action: Callable[[], T]) -> T:
        """Run `action`, again while the bucket of a run that has begun refuses access.

        Raises PassingError when the bucket has refused for as long as a start waits, or Google's client has.
        """
        if self._local or self._files is self._first:
            return action()
        place = f"storage {self.uri}"
        try:
            return RetryBudget().call(
                place, action, lambda error: isinstance(error, PermissionError), BUCKET_REMEDY
            )
        except OSError as error:
            # Errors of a disk and of a missing object have a number. One without is the client's last word.
            if error.errno is not None:
                raise
            raise PassingError(f"{place}: {one_line(error)}. {GOES_ON}") from error

    def read_text(self, name: str) -> str | None:
        """The file's text, or None when there is no such file. Raises ValueError as `bounded_text` does."""
        return self.patiently(lambda: self._read_text(f"{self.path}/{name}"))

    def _read_text(self, path: str) -> str | None:
        if self._files.get_file_info(path).type == fs.FileType.NotFound:
            return None
        with self._files.open_input_stream(path) as stream:
            return bounded_text(stream)

    def leads_outside(self, name: str) -> bool:
        """Whether a file is a link to one outside of the directory. A bucket has no links."""
        return self._local and not Path(self.path, name).resolve().is_relative_to(Path(self.path).resolve())

    def version(self) -> str | None:
        """The version of the file in place of the directory, or None. It changes with the bytes."""
        return self.patiently(self._version)

    def _version(self) -> str | None:
        if self._files.get_file_info(self.path).type != fs.FileType.File:
            return None
        with self._files.open_input_stream(self.path) as stream:
            if self._local:
                return hashlib.file_digest(stream, "sha256").hexdigest()
            return stream.metadata()["generation"].decode()

    def write_text(self, name: str, text: str, *, patient: bool = True) -> None:
        """Replace a file. A `patient` write waits for a bucket that refuses access."""
        content = text.encode()

        def write(files: fs.FileSystem) -> None:
            with self._written(name, files) as stream:
                stream.write(content)

        if patient:
            self.patiently(lambda: write(self._files))
        else:
            write(self._hasty)

    def sizes(self, name: str = "") -> dict[str, int]:
        """The size in bytes of every file under `name`, by its path there. Empty when there is none."""
        base = f"{self.path}/{name}".rstrip("/")
        selector = fs.FileSelector(base, allow_not_found=True, recursive=True)
        infos = self.patiently(lambda: self._files.get_file_info(selector))
        return {
            info.path.removeprefix(base).lstrip("/"): info.size
            for info in infos
            if info.type == fs.FileType.File
        }

    def upload(self, source: Path, name: str) -> None:
        """Copy one local file."""

        # Opened first: that a local file may not be read says nothing about the bucket.
        with source.open("rb") as reader:

            def copy() -> None:
                reader.seek(0)
                with self._written(name, self._files) as writer:
                    shutil.copyfileobj(reader, writer, 16 << 20)

            self.patiently(copy)

    def download(self, name: str, target: Path, size: int | None = None) -> None:
        """Copy one file to the local disk. Without a name it is the file in place of the directory.

        Raises ValueError, and leaves no file, when it has another number of bytes than `size`.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        path = f"{self.path}/{name}".rstrip("/")

        def copy() -> None:
            received = 0
            with self._files.open_input_stream(path) as reader, target.open("wb") as writer:
                while piece := reader.read(16 << 20):
                    received += len(piece)
                    if size is not None and received > size:
                        break
                    writer.write(piece)
            if size not in (None, received):
                raise ValueError(f"{path} arrives with other bytes than its {size}")

        try:
            self.patiently(copy)
        except ValueError:
            target.unlink()
            raise

    @contextmanager
    def writing(self, name: str) -> Generator[NativeFile]:
        """A stream to a file, which appears when all is written. An exception leaves no part of it."""
        with self._written(name, self._files) as stream:
            yield stream

    def delete(self, name: str) -> None:
        """Remove the directory `name` and everything in it."""
        for part in self.sizes(name):
            path = f"{self.path}/{name}/{part}"
            # When an answer is lost, Google's client asks again, and then the object is gone.
            with suppress(FileNotFoundError):
                self.patiently(lambda path=path: self._files.delete_file(path))
        if self._local and Path(self.path, name).is_dir():
            shutil.rmtree(Path(self.path, name))

    def remove_stale_parts(self) -> None:
        """Delete what killed writers have left on a disk. A bucket has no such files."""
        if self._local:
            remove_stale_parts(Path(self.path).rglob("*.part"))

    @contextmanager
    def _written(self, name: str, files: fs.FileSystem) -> Generator[NativeFile]:
        """As `writing`, with a client of its own patience."""
        path = f"{self.path}/{name}"
        if self._local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with written_whole(Path(path)) as part, files.open_output_stream(str(part)) as stream:
                yield stream
            return
        stream = files.open_output_stream(path)
        try:
            yield stream
        except BaseException:
            # An object appears when its stream is closed, with what it holds then, and not before.
            with suppress(OSError):
                stream.close()
                files.delete_file(path)
            raise
        stream.close()


def _filesystem(uri: str, retry_limit: timedelta) -> tuple[fs.FileSystem, str]:
    if uri.startswith("gs://"):
        return fs.GcsFileSystem(retry_time_limit=retry_limit), uri.removeprefix("gs://")
    if "://" in uri:
        raise InputError(f"--storage must be gs://BUCKET[/FOLDER] or a local path, not {uri}")
    return fs.LocalFileSystem(), str(Path(uri).resolve())
