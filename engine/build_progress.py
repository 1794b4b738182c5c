"""Shows how far a long build is: one changing line on a terminal, few lines in a log."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO

# In a log a build of 12 minutes then has two dozen lines.
_SECONDS_BETWEEN_LINES: Final = 30
# Clears the line of a terminal.
_CLEAR: Final = "\r\x1b[K"


def _standard_error() -> TextIO:
    return sys.stderr


@dataclass(kw_only=True)
class BuildProgress:
    """The progress of a build.

    Args:
        log: Receives the lines where no terminal shows them.
        minutes: How long the build takes by estimate, on two idle cores.
        clock: The seconds of now.
        stream: The terminal, if it is one.
    """

    log: Callable[[str], None]
    minutes: float
    clock: Callable[[], float] = time.monotonic
    stream: TextIO = field(default_factory=_standard_error)
    _start: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self._last = self.clock()

    def show(self, step: str) -> None:
        """Shows a step: on a terminal each one, in a log one in 30 seconds."""
        now = self.clock()
        minutes, seconds = divmod(int(now - self._start), 60)
        line = f"  {step}, {minutes}:{seconds:02} of about {max(1, round(self.minutes))}:00"
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
