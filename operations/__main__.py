"""The operator's commands: `python -m operations COMMAND`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    # Python runs the folder `operations` by its path, from any other folder.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from engine.start import ready


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status."""
    with ready("operations"):
        from operations import command_line

        return command_line.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
