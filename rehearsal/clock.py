"""How long an operation takes on the stand-in platform."""

import threading
from collections.abc import Mapping
from typing import Any

from cloud.record import Operation
from cloud.records import minutes
from rehearsal.fake_cloud import Rejected


class Clock:
    """Lets operations take their published durations, shortened.

    Args:
        seconds_per_minute: Seconds that a minute of the real thing lasts here; 0 for no waiting.
    """

    def __init__(self, seconds_per_minute: float = 0) -> None:
        self.seconds_per_minute = seconds_per_minute
        self._stopped = threading.Event()

    def take(self, type_token: str, operation: Operation, inputs: Mapping[str, Any]) -> None:
        """Waits as long as `create`, `update` or `delete` of a resource takes.

        Raises:
            Rejected: When the clock is stopped meanwhile.
        """
        if self.seconds_per_minute:
            self._stopped.wait(minutes(type_token, operation, inputs) * self.seconds_per_minute)
        if self._stopped.is_set():
            raise Rejected("interrupted")

    def stop(self) -> None:
        """Ends all waiting, now and later."""
        self._stopped.set()
