"""What the processes of a test run have in common: it is made once, by whoever needs it first."""

import atexit
import fcntl
import hashlib
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")

# Where it is kept, if there are several of them.
folder: list[Path] = []
# What a process keeps open until its tests have run.
kept_open = ExitStack()
atexit.register(kept_open.close)


def once(key: object, make: Callable[[], Made]) -> Made:
    """What `make` returns, for tests that look and change nothing."""
    if not folder:
        return make()
    file = folder[0] / hashlib.sha256(repr(key).encode()).hexdigest()
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(make()))
        return pickle.loads(file.read_bytes())
