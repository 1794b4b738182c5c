"""The files of a training run, in a bucket or in a folder of this machine."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from cloud.client import MOST_BYTES, TooLargeError
from operations.errors import OperationError
from operations.google.clients import Clients


class RunFiles(Protocol):
    """Reads the files of one run by their names in its folder."""

    @property
    def run(self) -> str:
        """The name of the run, for a person."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is no such file.

        Raises:
            OperationError: When it cannot be read.
        """
        ...

    def written(self, name: str) -> datetime | None:
        """When the file was written, None if nobody says it. Raises the errors of `read`."""
        ...


@dataclass(frozen=True, kw_only=True)
class RunInBucket:
    """A run in a bucket. Its errors are `CallError`."""

    clients: Clients
    bucket: str
    run: str

    def read(self, name: str) -> bytes | None:
        """See `RunFiles`."""
        return self.clients.read(self.bucket, f"{self.run}/{name}")

    def written(self, name: str) -> datetime | None:
        """See `RunFiles`."""
        described = self.clients.call(
            "storage.v1", "objects.get", bucket=self.bucket, object=f"{self.run}/{name}"
        )
        updated = described.get("updated")
        return datetime.fromisoformat(updated) if updated else None


@dataclass(frozen=True, kw_only=True)
class RunInFolder:
    """A run that was trained on this machine."""

    folder: Path

    @property
    def run(self) -> str:
        """See `RunFiles`."""
        return self.folder.resolve().name

    def read(self, name: str) -> bytes | None:
        """See `RunFiles`."""
        file = self.folder / name
        if not file.is_file():
            return None
        if file.stat().st_size > MOST_BYTES:
            raise OperationError(f"{file} is not read: {TooLargeError()}")
        return file.read_bytes()

    def written(self, name: str) -> datetime | None:
        """See `RunFiles`."""
        return datetime.fromtimestamp((self.folder / name).stat().st_mtime, UTC)
