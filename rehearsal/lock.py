"""One rehearsal of a stack at a time."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rehearsal.errors import RehearsalError


@contextmanager
def alone(directory: Path) -> Generator[None]:
    """Holds the directory of a stack's results.

    The lock is on the directory itself: it leaves no file behind and dies with the process.

    Raises:
        RehearsalError: When another process holds it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RehearsalError(f"a rehearsal of {directory.name} is under way; wait for its end") from None
    else:
        yield
    finally:
        os.close(handle)
