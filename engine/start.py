"""The start of every command of this project: puts right what would stop its libraries, or says it in a line.

It needs nothing but Python, so that it can say that something is missing.
"""

from __future__ import annotations  # An older Python than the project needs must get as far as the message.

import os
import resource
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_OLDEST: Final = (3, 11)
# The engine gives a program its configuration in these. Here they would be another program's.
_OF_ANOTHER_PROGRAM: Final = ("PULUMI_CONFIG", "PULUMI_CONFIG_SECRET_KEYS")
# A rehearsal of a4-ray runs with 50 open files and fails with 40 (measured 2026-11-25).
_FEWEST_FILES: Final = 128
_ENOUGH_FILES: Final = 4096
_CANNOT_START: Final = 2


@contextmanager
def ready(command: str) -> Generator[None]:
    """Gets the process ready; the imports of a command belong into this context.

    Args:
        command: What `python -m` was given.

    Raises:
        SystemExit: With status 2, after a line that says what is missing.
    """
    _open_standard_streams()
    to_run = f"run `make setup`, then .venv/bin/python -m {command}"
    if sys.version_info < _OLDEST:
        _end(command, f"this Python is {sys.version.split()[0]}, and 3.11 or newer is needed; {to_run}")
    files = _too_few_files()
    if files:
        needed = f"and {_FEWEST_FILES} are needed; ulimit -n {_ENOUGH_FILES}"
        _end(command, f"a process may have {files} open files here, {needed}")
    for name in _OF_ANOTHER_PROGRAM:
        os.environ.pop(name, None)
    if any(option.startswith("error") for option in sys.warnoptions):
        # The SDK warns of its own deprecated parts when it is imported, and could not be imported.
        warnings.simplefilter("ignore")
    try:
        yield
    except ModuleNotFoundError as error:
        _end(command, f"{sys.executable} has no package {error.name}; {to_run}")


def _open_standard_streams() -> None:
    """Opens the streams that whoever started the process has closed: a file would get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


def _too_few_files() -> int:
    """Raises the limit of open files as far as that helps; the limit if it stays too low, else 0."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _ENOUGH_FILES if most == resource.RLIM_INFINITY else min(most, _ENOUGH_FILES)
    if limit != resource.RLIM_INFINITY and limit < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, most))
        limit = enough
    return limit if 0 <= limit < _FEWEST_FILES else 0


def _end(command: str, why: str) -> None:
    print(f"{command}: {why}", file=sys.stderr)
    raise SystemExit(_CANNOT_START)
