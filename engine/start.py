"""The start of every command: corrects settings of the process that would stop a library, or ends in words.

It needs only Python's standard library, so that it can say that a package is missing.
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
# The engine passes a program its configuration in these variables. A value from outside would belong to
# another program.
_OF_ANOTHER_PROGRAM: Final = ("PULUMI_CONFIG", "PULUMI_CONFIG_SECRET_KEYS")
# A rehearsal of a4-ray runs with 50 open files and fails with 40 (measured 2026-11-25).
_FEWEST_FILES: Final = 128
_ENOUGH_FILES: Final = 4096
_CANNOT_START: Final = 2


@contextmanager
def ready(command: str) -> Generator[None]:
    """Prepares the process for a command. The command's imports belong into this context.

    Args:
        command: The module that `python -m` runs.

    Raises:
        SystemExit: If something is missing, with status 2 after a line that names it.
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
        # The SDK warns of its own deprecated parts when it is imported. As errors they would stop the import.
        warnings.simplefilter("ignore")
    try:
        yield
    except ModuleNotFoundError as error:
        _end(command, f"{sys.executable} has no package {error.name}; {to_run}")


def _open_standard_streams() -> None:
    """Opens the standard streams that are closed: otherwise a file that is opened gets their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


def _too_few_files() -> int:
    """Raises the limit of open files. Returns the limit if it stays too low, else 0."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _ENOUGH_FILES if most == resource.RLIM_INFINITY else min(most, _ENOUGH_FILES)
    if limit != resource.RLIM_INFINITY and limit < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, most))
        limit = enough
    return limit if 0 <= limit < _FEWEST_FILES else 0


def _end(command: str, reason: str) -> None:
    print(f"{command}: {reason}", file=sys.stderr)
    raise SystemExit(_CANNOT_START)
