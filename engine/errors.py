"""The error of the engine room."""

import errno
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

_ELSEWHERE: Final = "run it from a copy of the project that can be written to"
_FILES: Final = "ulimit -n 4096, and again"
_ROOM: Final = "free some space, in .rehearsal/ and in TMPDIR"
# What to do if a file cannot be opened or written, by the number of the system's error.
_REMEDIES: Final[Mapping[int | None, str]] = {
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _ELSEWHERE),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _ROOM),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _FILES),
}


class EngineError(Exception):
    """The engine cannot be found, built or run. The message is for the person who started the command."""


@contextmanager
def writing() -> Generator[None]:
    """Turns an error of the system about opening or writing a file into an `EngineError` with a remedy."""
    try:
        yield
    except OSError as error:
        if remedy := _REMEDIES.get(error.errno):
            raise EngineError(f"{error.filename or 'a file'}: {error.strerror}; {remedy}") from None
        raise
