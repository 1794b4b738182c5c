"""Rehearses a stack: `python -m rehearsal STACK`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from engine.start import ready


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a rehearsal and returns the exit status."""
    # Most objects are modules of the SDKs, which stay. To look for garbage among them by default takes a
    # seventh of the CPU time of this process.
    gc.set_threshold(50_000, 20, 100)
    with ready("rehearsal"):
        from rehearsal import command
    return command.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
