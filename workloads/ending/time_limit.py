"""How long a run may train, all its tries together. Waiting for machines does not count."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ending.exit_codes import Exit
from ending.files import TextFiles, read_json, write_or_say

FILE = "time.json"
# When the process that counts is killed, at most these seconds are lost.
SECONDS_BETWEEN_WRITES = 60.0
# After the limit a run has this long for its step and its checkpoint. Then it hangs, and ends unsaved.
OVERTIME_S = 1800.0


class TimeLimit:
    """Counts the seconds that a run has trained, in its directory, and compares them with its limit.

    Attributes:
        counts: Whether this is the one process that counts.
    """

    def __init__(
        self,
        files: TextFiles,
        hours: float | None,
        counts: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Read the time of earlier tries. Without `hours` time is counted but not limited."""
        self.counts = counts
        self._files, self._hours, self._clock = files, hours, clock
        self._before: float = read_json(files, FILE).get("seconds", 0)
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds that the run has trained, as far as this process knows."""
        return self._before + (0 if self._began is None else self._clock() - self._began)

    def reached(self, overtime_s: float = 0) -> bool:
        """Whether the run has trained for its hours and for `overtime_s` more."""
        return self._hours is not None and self.seconds >= self._hours * 3600 + overtime_s

    @property
    def sentence(self) -> str:
        """The limit in words, and how to go on."""
        return (
            f"the run has trained for {self.seconds / 3600:.2f} hours and maxRunHours is {self._hours:g}: "
            "with a higher one `pulumi up` goes on from the newest checkpoint"
        )

    def record(self) -> None:
        """Write the seconds to the run's directory."""
        write_or_say(self._files, FILE, json.dumps({"seconds": round(self.seconds, 1)}))

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count the time of the block, if this is the process that counts."""
        if not self.counts:
            yield
            return
        self._began = self._clock()
        ended = threading.Event()
        recorder = threading.Thread(target=self._record_until, args=(ended,), daemon=True)
        recorder.start()
        try:
            yield
        finally:
            ended.set()
            recorder.join()
            self.record()

    def _record_until(self, ended: threading.Event) -> None:
        while not ended.wait(SECONDS_BETWEEN_WRITES):
            self.record()
            if self.reached(OVERTIME_S):
                print(f"error: it hangs, and {self.sentence}", file=sys.stderr, flush=True)
                os._exit(Exit.LIMIT_REACHED)
