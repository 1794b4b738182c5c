"""Writes the generated parts of the documents: `python -m docs_generator`, or `make docs`."""

import sys

from docs_generator.pages import pages
from docs_generator.parts import DocumentationError
from engine.errors import EngineError
from engine.plan import Plan
from engine.project import ROOT
from rehearsal.session import Rehearsal


def main() -> int:
    """Writes every file whose generated text has changed, and returns the exit status."""
    try:
        texts = pages(_plan)
    except (DocumentationError, EngineError) as error:
        print(f"docs_generator: {error}", file=sys.stderr)
        return 1
    for path, text in texts.items():
        changed = not path.exists() or path.read_text() != text
        if changed:
            path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {'written' if changed else 'unchanged'}")
    return 0


def _plan(stack: str) -> Plan:
    with Rehearsal(stack) as rehearsal:
        return rehearsal.preview()


if __name__ == "__main__":
    sys.exit(main())
