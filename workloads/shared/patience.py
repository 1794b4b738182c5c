"""Waits for trouble to pass, such as a Hub that is down or a role that is new, within one limit a process."""

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from shared.errors import PassingError, one_line

T = TypeVar("T")

# Seconds. A role that was just granted holds everywhere after "typically 2 minutes, potentially 7 minutes or
# longer": https://docs.cloud.google.com/iam/docs/access-change-propagation
LIMIT = 480.0
# Seconds between two tries, unless the other side asks for more.
LONGEST_PAUSE = 30.0
# What to do about a bucket that has refused for too long.
GOES_ON = "The next start goes on from the newest checkpoint."
BUCKET_REMEDY = f"`pulumi up --refresh` restores the bucket and its roles. {GOES_ON}"


class RetryBudget:
    """Counts the time that failed tries and pauses cost. Calls of several threads at once count once."""

    def __init__(self) -> None:
        self._left, self._counted_until = LIMIT, -math.inf
        self._lock = threading.Lock()

    def call(
        self,
        place: str,
        action: Callable[[], T],
        passes: Callable[[BaseException], bool],
        remedy: str | None = None,
    ) -> T:
        """Return what `action` returns. Call it again, and print a line, while its error `passes`.

        An error may have the attribute `asked`: for how many seconds the other side wants to be left alone.

        Args:
            place: What every line begins with, such as the address that is asked.
            remedy: Sentences at the end of the error's message.

        Raises:
            PassingError: The time is up.
        """
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                return action()
            except Exception as error:
                if not passes(error):
                    raise
                why = f"{place}: {one_line(error)}"
                pause = self._pause(began, getattr(error, "asked", 0) or min(2.0**attempt, LONGEST_PAUSE))
                attempt += 1
                if not pause:
                    waited = f"; given up after {attempt} tries and {LIMIT / 60:.0f} minutes of waiting"
                    raise PassingError(why + waited + (f". {remedy}" if remedy else "")) from error
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


RETRY_BUDGET = RetryBudget()
