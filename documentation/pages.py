"""The files that are generated, or hold a part that is."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cloud import records
from cloud.machines import B200, L4
from cloud.record import ANY_CALL
from components.remedies import what_to_do
from documentation import figures, picture, settings_reference
from documentation.parts import DocumentationError, scenarios, table
from engine.plan import Plan, short_type
from engine.project import ROOT, known_stacks
from operations.first_run.assumptions import assumptions
from rehearsal.faults import KINDS
from workloads.finetune import recipe as gemma
from workloads.maxtext.maxtext_driver import recipe as maxtext

DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
# A type of resource whose provider says what faults say.
_ASKED: Final = "gcp:compute/network:Network"
PIPELINE: Final = ROOT / ".gitlab-ci.yml"


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
    settings = DOCS / "settings.md"
    found = {settings: _filled(settings, {"settings": settings_reference.page()})}
    for folder, model in ((gemma.RECIPES, gemma.Recipe), (maxtext.RECIPES, maxtext.Recipe)):
        # Each recipe names it in its first line, and an editor completes and checks what is written.
        found[folder / "recipe.schema.json"] = json.dumps(model.model_json_schema(), indent=2) + "\n"
    plans = {scenario: plan_of(scenario) for scenario in scenarios()}
    for scenario, plan in plans.items():
        found[page_of(scenario)] = _filled(
            page_of(scenario),
            {"costs": figures.section(scenario, plan), "plan": picture.section(scenario, plan)},
        )
    operations = DOCS / "operations.md"
    found[operations] = _filled(operations, {"list prices": figures.prices()})
    found[README] = _filled(README, {"stacks": _stacks(plans)})
    minutes, faults = (
        _minutes(),
        ([f"`{kind}`", said, what_to_do(_ASKED, said, "STACK") or "-"] for kind, said in KINDS.items()),
    )
    kinds = table("kind", "what the platform says", "what `up` adds", rows=faults)
    for page, column, texts in (("gotchas", "otherwise", {}), ("rehearsal", "in minutes", minutes)):
        rows = [
            [f"`{id}`", row.assumed, texts.get(id, row.otherwise), row.source, row.look]
            for id, row in assumptions().items()
            if (id in minutes) is (page == "rehearsal")
        ]
        text = table("id", "assumed", column, "source", "look", rows=rows)
        found[DOCS / f"{page}.md"] = _filled(
            DOCS / f"{page}.md", {"assumptions": text, **({"faults": kinds} if page == "rehearsal" else {})}
        )
    found[PIPELINE] = _pipeline()
    found[DOCS / "training" / "memory-and-speed.md"] = _filled(
        DOCS / "training" / "memory-and-speed.md", {"memory": _memory()}
    )
    return found


def _pipeline() -> str:
    """GitLab's pipeline, whose `up` has a job for every stack: nobody types the name of one."""
    stacks = ", ".join(known_stacks(ROOT))
    text, count = re.subn(r"(?<=- STACK: \[).*(?=\])", stacks, PIPELINE.read_text())
    if count != 1:
        raise DocumentationError(f"{PIPELINE.name}: the jobs of `up` go into one line, `- STACK: []`")
    return text


def _memory() -> str:
    """GB of a GPU's memory that a step of each recipe takes."""
    parts: dict[str, float] = {}
    rows = []
    for name, sizes in json.loads(gemma.FIT.read_text()).items():
        for point in sizes["points"]:
            parts = {part: size / 1e9 for part, size in point["bytes"].items()}
            needed = sum(parts.values())
            shares = (f"{needed / gpu.memory_gb:.0%}" for gpu in (L4, B200))
            settings = [name, str(point["processes"]), str(point["max_length"] or "-")]
            rows.append([*settings, *(f"{size:.1f}" for size in (*parts.values(), needed)), *shares])
    gpus = (f"of {gpu.memory_gb} GB" for gpu in (L4, B200))
    return table("recipe", "processes", "max_length", *parts, "all", *gpus, rows=rows)


def _minutes() -> dict[str, str]:
    """By assumption, how long it is assumed to take to create, to update and to delete what."""
    found = {id: defaultdict(list) for id in assumptions() if id.startswith("minutes-")}
    typed = ((f"`{short_type(it.type)}`", each) for it in records.every().values() for each in it.minutes)
    for what, each in (("anything else", ANY_CALL), *typed):
        if each.assumption:
            figures = ("-" if it is None else f"{it:g}" for it in (each.create, each.update, each.delete))
            found[each.assumption][", ".join(figures)].append(what)
    return {
        id: "; ".join(f"{', '.join(whats)}: {text}" for text, whats in figures.items())
        for id, figures in found.items()
    }


def _stacks(plans: Mapping[str, Plan]) -> str:
    """What a user has, the stacks to take for it, what they run, how long `up` takes and what they cost."""
    rows = (
        [
            _needs(scenario),
            ", ".join(f"[`{stack}`]({page_of(scenario).relative_to(ROOT)})" for stack in stacks),
            _title(scenario),
            *figures.row(scenario, plans[scenario]),
        ]
        for scenario, stacks in scenarios().items()
    )
    return table("you have", "take", "what it runs", *figures.COLUMNS, rows=rows)


def _title(scenario: str) -> str:
    """What stands behind the colon in the first line of the scenario's page."""
    return _from_page(scenario, r"\A# [^:\n]+: (.+)$", "its first line is `# STACK: what it runs`")


def _needs(scenario: str) -> str:
    """What the scenario's page says that a user needs."""
    return _from_page(scenario, r"^You need (.+)\.$", "a line says `You need QUOTA OR RESERVATION.`")


def _from_page(scenario: str, pattern: str, missing: str) -> str:
    page = page_of(scenario)
    match = re.search(pattern, page.read_text(), re.MULTILINE)
    if not match:
        raise DocumentationError(f"{page.relative_to(ROOT)}: {missing}")
    return match.group(1)


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
