"""The files that are generated, or hold a part that is."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from documentation import picture, settings_reference
from documentation.errors import DocumentationError
from documentation.scenarios import scenarios
from engine.plan import Plan
from engine.project import ROOT
from operations.first_run.assumptions import assumptions
from workloads.finetune import recipe as gemma
from workloads.maxtext.maxtext_driver import recipe as maxtext

DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"


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
    for folder, model in ((gemma.RECIPES, gemma.Recipe), (maxtext.RECIPES, maxtext.Recipe)):
        # Each recipe names it in its first line, and an editor completes and checks what is written.
        found[folder / "recipe.schema.json"] = json.dumps(model.model_json_schema(), indent=2) + "\n"
    for scenario in scenarios():
        found[page_of(scenario)] = _filled(
            page_of(scenario), {"plan": picture.section(scenario, plan_of(scenario))}
        )
    drawn = re.findall(r"<!-- plan of (\S+): ", README.read_text())
    pictures = {f"plan of {stack}": picture.section(stack, plan_of(stack)) for stack in drawn}
    found[README] = _filled(README, {"stacks": _table(), **pictures})
    for page, minutes in (("gotchas", False), ("rehearsal", True)):
        found[DOCS / f"{page}.md"] = _filled(DOCS / f"{page}.md", {"assumptions": _assumed(minutes)})
    return found


def _assumed(minutes: bool) -> str:
    """What nobody here has seen on the cloud: how many minutes something takes, or the rest of it."""
    rows = [
        f"| `{row.id}` | {row.assumed} | {row.source} | {row.look} |\n"
        for row in assumptions().values()
        if row.id.startswith("minutes-") is minutes
    ]
    return "".join(["| id | assumed | source | look |\n|---|---|---|---|\n", *rows])


def _table() -> str:
    """The stacks of every scenario with the title of its page."""
    rows = [
        f"| {', '.join(f'[`{stack}`]({page_of(scenario).relative_to(ROOT)})' for stack in stacks)} "
        f"| {_title(scenario)} |\n"
        for scenario, stacks in scenarios().items()
    ]
    return "".join(["| stack | what it runs |\n|---|---|\n", *rows])


def _title(scenario: str) -> str:
    """What stands behind the colon in the first line of the scenario's page."""
    page = page_of(scenario)
    _, colon, title = page.read_text().partition("\n")[0].partition(": ")
    if not colon:
        raise DocumentationError(f"{page.relative_to(ROOT)}: its first line is `# STACK: what it runs`")
    return title


def _filled(path: Path, parts: Mapping[str, str]) -> str:
    """The page with every part between the two marks that name it."""
    shown = path.relative_to(ROOT)
    page = path.read_text() if path.exists() else ""
    for part, text in parts.items():
        marks = f"<!-- {part}: written by `make docs` -->\n", f"<!-- end of {part} -->\n"
        before, begin, rest = page.partition(marks[0])
        _, end, after = rest.partition(marks[1])
        if not begin or not end:
            raise DocumentationError(f"{shown}: its {part} goes between two lines\n{''.join(marks)}")
        page = f"{before}{begin}{text}{end}{after}"
    return page
