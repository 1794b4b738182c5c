"""What training asks of whoever drives it; the answers differ between one process, torchrun and Ray."""

from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol


class Wish(IntEnum):
    """What a process is asked for from outside; over all ranks the highest counts."""

    GO_ON = 0
    SAVE = 1
    SAVE_AND_STOP = 2


class Driver(Protocol):
    """Called on every rank, at the same steps."""

    def wish(self) -> Wish:
        """Asked after every step."""
        ...

    def save_checkpoint(self, step: int, metrics: dict[str, Any], files: Path | None) -> None:
        """Keep a checkpoint of `files`, this rank's part of it; None where a rank has no part."""
        ...
