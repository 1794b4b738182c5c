"""The interface between training and its launcher: a single process, torchrun or Ray."""

from enum import IntEnum
from pathlib import Path
from typing import Protocol


class Request(IntEnum):
    """What a process was asked to do, by a signal, by Ray or by the time. The highest of all ranks counts."""

    CONTINUE = 0
    SAVE = 1
    SAVE_AND_STOP = 2
    STOP_AT_LIMIT = 3


class Driver(Protocol):
    """Implemented by each launcher. Every rank calls its methods, after the same steps."""

    def begin(self) -> None:
        """Answer requests after a step from now on; called when the model is loaded."""
        ...

    def requested(self) -> Request:
        """What this process was asked to do; called after every step."""
        ...

    def save_checkpoint(self, step: int, files: Path | None) -> None:
        """Store a checkpoint. `files` is the directory with this rank's part; None for a rank without one."""
        ...
