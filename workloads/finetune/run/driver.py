"""The interface between training and its launcher: a single process, torchrun or Ray."""

from enum import IntEnum
from typing import Protocol


class Request(IntEnum):
    """What a signal, Ray or the time asks a process to do. The highest request of all ranks counts."""

    CONTINUE = 0
    SAVE = 1
    SAVE_AND_STOP = 2
    STOP_AT_LIMIT = 3


class Driver(Protocol):
    """Implemented by each launcher. Every rank calls its methods, after the same steps."""

    def begin(self) -> None:
        """Answer requests after a step from now on. Called when the model is loaded."""
        ...

    def requested(self) -> Request:
        """The request to this process so far. Called after every step."""
        ...
