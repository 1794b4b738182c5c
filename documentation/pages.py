"""The files that are generated, or hold a part that is."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from documentation import picture, settings_reference
from documentation.errors import DocumentationError
from documentation.scenarios import scenarios
from engine.plan import Plan
from engine.project import ROOT

DOCS: Final = ROOT / "docs"
_BEGIN: Final = "<!-- plan: written by `make docs` -->\n"
_END: Final = "<!-- end of plan -->\n"


def page_of(scenario: str) -> Path:
    """The page of a scenario."""
    return DOCS / "stacks" / f"{scenario}.md"


def pages(plan_of: Callable[[str], Plan]) -> dict[Path, str]:
    """Every file with its text as it should be.

    Args:
        plan_of: Gives the plan of a stack.

    Raises:
        DocumentationError: When something that a page needs is not there.
    """
    found = {DOCS / "settings.md": settings_reference.page()}
    for scenario in scenarios():
        path = page_of(scenario)
        found[path] = _with_picture(path, picture.section(scenario, plan_of(scenario)))
    return found


def _with_picture(path: Path, section: str) -> str:
    shown = path.relative_to(ROOT)
    if not path.exists():
        raise DocumentationError(
            f"{shown} is missing: write it, with the two marks that its picture goes between"
        )
    before, begin, rest = path.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise DocumentationError(
            f"{shown} does not say where its picture goes: add these two lines\n{_BEGIN}{_END}"
        )
    return f"{before}{begin}{section}{end}{after}"
