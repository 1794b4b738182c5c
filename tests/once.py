"""Results that all processes of a test run share: the first process that needs one computes it."""

import atexit
import fcntl
import hashlib
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

# The folder with the results, if there are several processes.
folder: list[Path] = []
# Contexts that a process keeps open until its tests have run.
kept_open = ExitStack()
atexit.register(kept_open.close)


def once(key: object, compute: Callable[[], Result]) -> Result:
    """The result of `compute`, for tests that do not change it."""
    if not folder:
        return compute()
    file = folder[0] / hashlib.sha256(repr(key).encode()).hexdigest()
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(compute()))
        return pickle.loads(file.read_bytes())
