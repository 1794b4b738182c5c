"""The error of the engine room."""

import errno
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

_ELSEWHERE: Final = "run it from a copy of the project that can be written to"
_FILES: Final = "ulimit -n 4096, and again"
_ROOM: Final = "free some space, in .rehearsal/ and in TMPDIR"
# What to do where nothing can be opened or written.
_REMEDIES: Final[Mapping[int | None, str]] = {
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _ELSEWHERE),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _ROOM),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _FILES),
}


class EngineError(Exception):
    """Why the engine cannot be had or run as asked; the text is meant for the person who asked."""


@contextmanager
def writing() -> Generator[None]:
    """Turns the system's refusal to open or write a file into an `EngineError` with what to do."""
    try:
        yield
    except OSError as error:
        if remedy := _REMEDIES.get(error.errno):
            raise EngineError(f"{error.filename or 'a file'}: {error.strerror}; {remedy}") from None
        raise
