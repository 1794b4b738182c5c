"""Says which Pulumi engine the rehearsal uses, and gets one if there is none: `python -m engine`."""

from __future__ import annotations

import sys

from engine.start import ready


def main() -> int:
    """Finds or makes the engine and returns the exit status."""
    with ready("engine"):
        from engine import lookup
        from engine.errors import EngineError, writing
    try:
        with writing():
            engine = lookup.find()
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{engine.command} {engine.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
