"""Cleans up when a signal ends a command of the rehearsal."""

import signal
import warnings
from types import FrameType
from typing import Final

EXIT_STATUS: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_on_signals() -> None:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into KeyboardInterrupt, so that everything is cleaned up."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second signal would only disturb the clean-up.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # the SDK warns about an event stream that ends early
    raise KeyboardInterrupt
