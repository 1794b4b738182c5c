"""Writes the generated parts of docs/: `python -m documentation`, or `make docs`."""

import sys

from documentation.pages import pages
from documentation.parts import DocumentationError
from engine.errors import EngineError
from engine.plan import Plan
from engine.project import ROOT
from rehearsal.session import Rehearsal


def main() -> int:
    """Writes every page that differs from what it should say; returns the exit status."""
    try:
        found = pages(_plan)
    except (DocumentationError, EngineError) as error:
        print(f"documentation: {error}", file=sys.stderr)
        return 1
    for path, text in found.items():
        changed = not path.exists() or path.read_text() != text
        if changed:
            path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {'written' if changed else 'as it was'}")
    return 0


def _plan(stack: str) -> Plan:
    with Rehearsal(stack) as rehearsal:
        return rehearsal.preview()


if __name__ == "__main__":
    sys.exit(main())
