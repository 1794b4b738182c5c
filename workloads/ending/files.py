"""The text files of a run's directory, in a bucket or on a disk."""

from typing import Protocol


class TextFiles(Protocol):
    """Implemented by each trainer's directory of a run."""

    def read_text(self, name: str) -> str | None:
        """The file's text, or None when there is no such file."""
        ...

    def write_text(self, name: str, text: str) -> None:
        """Replace a file; no reader sees it half written."""
        ...
