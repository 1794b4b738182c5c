"""One process at a time in a folder."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(folder: Path, busy: Callable[[], object]) -> Generator[None]:
    """Makes a folder and holds it. The lock leaves no file behind and dies with the process.

    Args:
        folder: The folder.
        busy: Called if another process holds the folder. If it returns, this process waits for the other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
