"""Waiting in a dynamic provider, which gets no signal when an operation is cancelled."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_STEP_S: Final = 0.5


class Interrupted(Exception):
    """The process is about to end, and nobody needs the result any more."""

    def __init__(self) -> None:
        super().__init__("interrupted")


class Clock:
    """The real time.

    A dynamic provider never hears that an operation is cancelled: the SDK answers the engine's Cancel itself,
    and operations run in threads, which get no signals. It can notice two things. Python is about to exit,
    because the engine interrupted the process and will kill it after 5 seconds. Or the engine has ended.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._pool = ThreadPoolExecutor(max_workers=1)
        # Starts the pool's thread now. A thread that starts while a signal arrives can take the signal from
        # the main thread, which then goes on sleeping.
        self._pool.submit(int)

    def now(self) -> float:
        """Seconds on a clock that only moves forward."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Sleeps for a number of seconds.

        Raises:
            Interrupted: As soon as the process is about to end.
        """
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            if os.getppid() != self._parent or self._exiting():
                raise Interrupted
            time.sleep(min(left, _STEP_S))

    def _exiting(self) -> bool:
        """Whether Python is exiting: once the interpreter waits for its threads, a pool takes no new work."""
        try:
            self._pool.submit(int)
        except RuntimeError:
            return True
        return False
