"""How long one process waits, all in all, for what may pass by itself: a Hub that is down, new rights."""

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ending.errors import PassingError, one_line

T = TypeVar("T")

# Seconds. A role that was just granted holds everywhere after "typically 2 minutes, potentially 7 minutes or
# longer": https://docs.cloud.google.com/iam/docs/access-change-propagation
LIMIT = 480.0
# Seconds between two tries at most, unless the other side asks for more.
LONGEST_PAUSE = 30.0


class Patience:
    """Counts the time that trouble costs, failed tries and pauses, once over all calls and threads."""

    def __init__(self) -> None:
        self._left, self._counted_until = LIMIT, -math.inf
        self._lock = threading.Lock()

    def call(self, what: str, action: Callable[[], T], passes: Callable[[BaseException], bool]) -> T:
        """`action()`, again while its error `passes`, with a line a try; PassingError when the time is up.

        An error may have `asked`: for how many seconds the other side wants to be left alone.
        """
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                return action()
            except Exception as error:
                if not passes(error):
                    raise
                why = f"{what}: {one_line(error)}"
                pause = self._pause(began, getattr(error, "asked", 0) or min(2.0**attempt, LONGEST_PAUSE))
                attempt += 1
                if not pause:
                    raise PassingError(
                        f"{why}; given up after {attempt} tries and {LIMIT / 60:.0f} minutes of waiting"
                    ) from error
                print(f"{why}; again in {pause:.0f} s, after that for {self._left:.0f} s more", flush=True)
            time.sleep(pause)

    def _pause(self, began: float, wanted: float) -> float:
        """Seconds until the next try, 0 when no time is left."""
        now = time.monotonic()
        with self._lock:
            self._left -= max(0.0, now - max(began, self._counted_until))
            pause = max(0.0, min(wanted, self._left))
            self._left -= max(0.0, now + pause - max(now, self._counted_until))
            self._counted_until = max(self._counted_until, now + pause)
        return pause


PATIENCE = Patience()
