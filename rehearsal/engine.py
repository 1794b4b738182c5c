"""Says which Pulumi engine the rehearsal uses, and gets one if there is none: `python -m rehearsal.engine`.

Nothing imports this module, so that it can be run; the work is done in `rehearsal.engine_lookup`.
"""

import sys

from rehearsal import engine_lookup
from rehearsal.errors import RehearsalError


def main() -> int:
    """Finds or makes the engine and returns the exit status."""
    try:
        engine = engine_lookup.find(print)
    except RehearsalError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{engine.command} {engine.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
