"""How long a run may train, all its tries together, and how long its accelerators may do nothing.

Waiting for machines does not count.
"""

import json
import os
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from shared.exit_codes import Exit
from shared.files import TextFiles, read_json, write_or_say
from shared.remembered import submission

FILE = "time.json"
# When the process that counts is killed, at most these seconds are lost.
SECONDS_BETWEEN_WRITES = 60.0
# After the limit a run has this long for its step and its checkpoint. Then it hangs, and ends unsaved.
OVERTIME_S = 1800.0
# The same for a run that has had no step for its idle minutes.
IDLE_OVERTIME_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run. None means no limit.

    Args:
        hours: Hours that it may train, all its tries together.
        idle_minutes: Minutes that it may go without a step, an evaluated batch or a checkpoint.
    """

    hours: float | None = None
    idle_minutes: float | None = None

    @classmethod
    def of(cls, options: Namespace) -> "Limits":
        """The limits in the options of `shared.command_line`."""
        return cls(hours=options.max_run_hours, idle_minutes=options.idle_minutes)

    def arguments(self) -> list[str]:
        """The options that say the same to another process."""
        options = {"--max-run-hours": self.hours, "--idle-minutes": self.idle_minutes}
        return [f"{option}={value:g}" for option, value in options.items() if value is not None]


NO_LIMIT = Limits()


class TimeLimit:
    """Counts the seconds that a run has trained, in its directory, and compares them with its limits.

    Each process of a run has one, and sees by itself when it is idle: a process that hangs keeps the others
    waiting, so all of them see it.

    Attributes:
        counts: Whether this is the one process that counts.
    """

    def __init__(
        self,
        files: TextFiles,
        limits: Limits,
        counts: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Read the time of earlier tries. Without `limits.hours` time is counted but not limited."""
        self.counts = counts
        self._files, self._limits, self._clock = files, limits, clock
        earlier = read_json(files, FILE, texts=("idle",), numbers=("seconds",))
        self._before: float = earlier.get("seconds", 0)
        # Whether this try is idle, or an earlier one of this submission was: another try would be too.
        idle = limits.idle_minutes is not None and "idle" in earlier
        self._idle = idle and earlier["idle"] == submission()
        self._began: float | None = None
        self._last_progress = 0.0

    @property
    def seconds(self) -> float:
        """Seconds that the run has trained, as far as this process knows."""
        return self._before + (0 if self._began is None else self._clock() - self._began)

    def progress(self) -> None:
        """Note that the accelerators have done something."""
        self._last_progress = self._clock()

    def reached(self) -> bool:
        """Whether the run has trained for its hours, or was idle for its minutes. Ask after each step."""
        self._idle = self._idle or self._without_progress()
        return self._idle or self._late()

    @property
    def sentence(self) -> str:
        """The limit in words, and how to go on."""
        hours, minutes = self._limits.hours, self._limits.idle_minutes
        # Without a limit of hours it was another process that saw the run idle.
        if self._idle or hours is None:
            return (
                f"the run had no step for {minutes or 0:g} minutes, which is idleMinutes: idle "
                "accelerators cost as much as busy ones, so it ends; look above for what it waited for, and "
                "`pulumi up --replace` of the job goes on from the newest checkpoint"
            )
        return (
            f"the run has trained for {self.seconds / 3600:.2f} hours and maxRunHours is "
            f"{hours:g}: with a higher one `pulumi up` goes on from the newest checkpoint"
        )

    def record(self) -> None:
        """Write the seconds to the run's directory, and whether this submission was idle."""
        idle = {"idle": submission()} if self._idle else {}
        write_or_say(self._files, FILE, json.dumps({"seconds": round(self.seconds, 1), **idle}))

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count the time of the block, and end this process if it hangs. One process records the time."""
        self._began = self._clock()
        self.progress()
        ended = threading.Event()
        watch = threading.Thread(target=self._watch_until, args=(ended,), daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()
            if self.counts:
                self.record()

    def _watch_until(self, ended: threading.Event) -> None:
        while not ended.wait(SECONDS_BETWEEN_WRITES):
            idle = self._without_progress(IDLE_OVERTIME_S)
            self._idle = self._idle or idle
            if self.counts:
                self.record()
            if idle or (self.counts and self._late(OVERTIME_S)):
                print(f"error: it hangs, and {self.sentence}", file=sys.stderr, flush=True)
                os._exit(Exit.LIMIT_REACHED)

    def _late(self, overtime_s: float = 0) -> bool:
        """Whether the run has trained for its hours and for `overtime_s` more."""
        hours = self._limits.hours
        return hours is not None and self.seconds >= hours * 3600 + overtime_s

    def _without_progress(self, overtime_s: float = 0) -> bool:
        """Whether nothing was done for the idle minutes and for `overtime_s` more."""
        minutes = self._limits.idle_minutes
        if minutes is None or self._began is None:
            return False
        return self._clock() - self._last_progress >= minutes * 60 + overtime_s
