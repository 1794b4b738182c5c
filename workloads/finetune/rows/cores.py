"""Runs a function over many inputs in processes of their own, one for each core of the machine."""

import ctypes
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Rows that a process takes at a time.
BATCH = 250
_SECONDS_BETWEEN_LINES = 5.0
# Results that wait for their turn, for each process. More would only take memory.
_WAITING = 4
# The limit of a container, as the kernel states it: microseconds a period, and the period.
_LIMIT = Path("/sys/fs/cgroup/cpu.max")
# prctl(2): the signal that a process gets when its parent ends.
_PARENT_DEATH_SIGNAL = 1

# The function of this process. A fork inherits it, so it need not be pickled.
_function: Callable[..., Any] | None = None


def cores() -> int:
    """How many cores this process may use. A process that may not start others has one."""
    if multiprocessing.current_process().daemon:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _LIMIT.read_text().split()
        return max(1, min(usable, int(quota) // int(period)))
    except (OSError, ValueError):
        return usable


class Progress:
    """Tells how many of the rows have their tokens, every few seconds and at the end of a long wait."""

    def __init__(self, rows: int, clock: Callable[[], float] = time.monotonic):
        self._rows, self._clock = rows, clock
        self._began = self._told = clock()

    def tell(self, done: int) -> None:
        """Print a line if the last one was long ago, or if this ends a wait of which one was printed."""
        now = self._clock()
        ends = done == self._rows and self._told > self._began
        if now - self._told >= _SECONDS_BETWEEN_LINES or ends:
            self._told = now
            speed = done / (now - self._began)
            print(f"tokens of {done:,} of {self._rows:,} rows, {speed:,.0f} rows a second", flush=True)


def in_batches(function: Callable[[range], T], rows: int) -> Iterator[T]:
    """The results of a function for the numbers of the rows, a batch at a time, on all cores.

    They are in the order of the rows. Tells how far it is.
    """
    batches = [range(start, min(start + BATCH, rows)) for start in range(0, rows, BATCH)]
    progress = Progress(rows)
    for batch, result in zip(batches, in_order(function, batches, min(cores(), len(batches))), strict=True):
        progress.tell(batch.stop)
        yield result


def in_order(function: Callable[..., T], inputs: Iterable[Any], processes: int) -> Iterator[T]:
    """The results of a function, in the order of its inputs. With one process this one computes them.

    Raises what the function raises at the first input for which it does.
    """
    if processes < 2:
        yield from map(function, inputs)
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(processes, context, _begin, (function, os.getpid()))
    remaining = iter(inputs)
    try:
        waiting: deque[Future[T]] = deque(
            pool.submit(_call, one) for one in islice(remaining, _WAITING * processes)
        )
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(_call, one) for one in islice(remaining, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(function: Callable[..., Any], parent: int) -> None:
    global _function
    _function = function
    # The parent's handlers are its own: it saves a checkpoint, say.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A parent that is killed closes no pipe that others hold open too.
    if hasattr(libc := ctypes.CDLL(None), "prctl"):
        libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    # Each process has one core. Threads of the parent's tokenizer do not exist here.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _call(one: Any) -> Any:
    assert _function is not None
    return _function(one)
