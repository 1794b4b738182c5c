"""Rehearses a stack: `python -m rehearsal STACK`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.start import ready


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a rehearsal and returns the exit status."""
    with ready("rehearsal"):
        from rehearsal import command
    return command.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
