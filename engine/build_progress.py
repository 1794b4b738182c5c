"""Shows how far a long build is: one changing line on a terminal, few lines in a log."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO

# In a log a build of 12 minutes then has two dozen lines.
_SECONDS_BETWEEN_LINES: Final = 30
_LEAST_SHARE: Final = 0.1
# Clears the line of a terminal.
_CLEAR: Final = "\r\x1b[K"


def _standard_error() -> TextIO:
    return sys.stderr


@dataclass(kw_only=True)
class BuildProgress:
    """The progress of a module's build.

    Args:
        log: Receives the lines where no terminal shows them.
        clock: The seconds of now.
        stream: The terminal, if it is one.
    """

    log: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    stream: TextIO = field(default_factory=_standard_error)
    _start: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self._last = self.clock()

    def show(self, step: str, share: float = 0) -> None:
        """Shows a step: on a terminal each one, in a log one in 30 seconds.

        Args:
            step: What is being done.
            share: The part of the build that is done, from 0 to 1. From a tenth on it gives the minutes left.
        """
        now = self.clock()
        minutes, seconds = divmod(int(now - self._start), 60)
        line = f"  {step} after {minutes}:{seconds:02}"
        if share >= _LEAST_SHARE:
            left = (now - self._start) * (1 - share) / share / 60
            line += f", about {left:.0f} min left" if left >= 1 else ", less than a minute left"
        if self.stream.isatty():
            self.stream.write(_CLEAR + line)
            self.stream.flush()
        elif now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            self.log(line)

    def end(self) -> None:
        """Clears the line of a terminal for what comes next."""
        if self.stream.isatty():
            self.stream.write(_CLEAR)
            self.stream.flush()
