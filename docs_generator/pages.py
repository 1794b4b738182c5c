"""The files that are generated, or that contain a generated part."""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from cloud import records
from cloud.machines import B200, L4
from cloud.organisation import CONSTRAINTS
from cloud.record import ANY_CALL
from cloud.services.serviceusage import SERVICE
from components.base.remedies import what_to_do
from docs_generator import figures, machines, methods, picture, settings_reference
from docs_generator.parts import DocumentationError, scenarios, table
from engine.plan import Plan, short_type
from engine.project import ROOT, known_stacks
from operations.assumptions.assumptions import assumptions
from rehearsal.fakes.faults import KINDS
from workloads.finetune.settings import recipe as gemma
from workloads.maxtext.maxtext_driver import recipe as maxtext

DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
# A type of resource whose provider reports the errors that faults provoke.
_FAULTY_TYPE: Final = "gcp:compute/network:Network"
PIPELINE: Final = ROOT / ".gitlab-ci.yml"


def page_of(scenario: str) -> Path:
    """The page of a scenario."""
    return DOCS / "stacks" / f"{scenario}.md"


def pages(plan_of: Callable[[str], Plan]) -> dict[Path, str]:
    """The complete new text of every generated file.

    Args:
        plan_of: Returns the plan of a stack.

    Raises:
        DocumentationError: If a source of a page is missing.
    """
    plans = {scenario: plan_of(scenario) for scenario in scenarios()}
    parts = {
        DOCS / "settings.md": {"settings": settings_reference.page()},
        **{
            page_of(scenario): {
                "costs": figures.section(scenario, plan),
                "plan": picture.section(scenario, plan),
            }
            for scenario, plan in plans.items()
        },
        DOCS / "in-a-company.md": {"constraints": _constraints(plans), "apis": _apis(plans)},
        DOCS / "operations.md": {"list prices": figures.prices()},
        DOCS / "machines.md": {"machines": machines.machines(), "models": machines.models()},
        README: {"stacks": _stacks(plans)},
        DOCS / "gotchas.md": {"assumptions": _assumptions()},
        DOCS / "rehearsal.md": {"assumptions": _assumed_minutes(), "faults": _faults()},
        DOCS / "training" / "memory-and-speed.md": {"memory": _memory()},
        DOCS / "training" / "methods.md": {"methods": methods.section()},
    }
    # The first line of every recipe names its schema, so that an editor can complete and check the recipe.
    schemas = {
        folder / "recipe.schema.json": json.dumps(model.model_json_schema(), indent=2) + "\n"
        for folder, model in ((gemma.RECIPES, gemma.Recipe), (maxtext.RECIPES, maxtext.Recipe))
    }
    filled = {path: _filled(path, texts) for path, texts in parts.items()}
    return {**filled, **schemas, PIPELINE: _pipeline()}


def _assumptions() -> str:
    """The table of all assumptions except the durations."""
    rows = [
        [f"`{id}`", row.assumed, row.otherwise, row.source, row.look]
        for id, row in assumptions().items()
        if id not in _minutes()
    ]
    return table("id", "assumed", "otherwise", "source", "look", rows=rows)


def _assumed_minutes() -> str:
    """The table of the assumed durations."""
    rows = [
        [f"`{id}`", row.assumed, _minutes()[id], row.source, row.look]
        for id, row in assumptions().items()
        if id in _minutes()
    ]
    return table("id", "assumed", "in minutes", "source", "look", rows=rows)


def _faults() -> str:
    """The table of the faults that a rehearsal can provoke, and of the advice that `up` adds."""
    rows = [
        [f"`{kind}`", message, what_to_do(_FAULTY_TYPE, message, "STACK") or "-"]
        for kind, message in KINDS.items()
    ]
    return table("kind", "what the platform says", "what `up` adds", rows=rows)


def _constraints(plans: Mapping[str, Plan]) -> str:
    """The table of the organisation's policies: what each refuses of the stacks as they are shipped."""
    rows = []
    for name, constraint in CONSTRAINTS.items():
        refused = [
            f"`{scenario}`"
            for scenario, plan in plans.items()
            if any(constraint.refuses(resource.type, resource.inputs) for resource in plan.resources)
        ]
        remedy = "no setting: ask for the APIs below" if constraint.request else constraint.remedy
        rows.append([f"`{name}`", constraint.forbids, ", ".join(refused) or "-", remedy or "-"])
    return table("constraint", "forbids", "refuses as shipped", "set", rows=rows)


def _apis(plans: Mapping[str, Plan]) -> str:
    """The table of the APIs that each stack enables and calls, as it is shipped."""
    users: dict[str, list[str]] = {}
    for scenario, plan in plans.items():
        for resource in plan.resources:
            if resource.type == SERVICE.type:
                users.setdefault(resource.inputs["service"], []).append(f"`{scenario}`")
    rows = [
        [f"`{api}`", "every stack" if len(names) == len(plans) else ", ".join(names)]
        for api, names in sorted(users.items())
    ]
    return table("API", "used by", rows=rows)


def _pipeline() -> str:
    """GitLab's pipeline. Its `up` has one job per stack, so that nobody has to type a stack's name."""
    stacks = ", ".join(known_stacks(ROOT))
    text, count = re.subn(r"(?<=- STACK: \[).*(?=\])", stacks, PIPELINE.read_text())
    if count != 1:
        raise DocumentationError(f"{PIPELINE.name}: add one line `- STACK: []` for the jobs of `up`")
    return text


def _memory() -> str:
    """The table of the GPU memory, in GB, that a training step of each recipe needs."""
    parts: dict[str, float] = {}
    rows = []
    for name, sizes in json.loads(gemma.FIT.read_text()).items():
        for point in sizes["points"]:
            parts = {part: size / 1e9 for part, size in point["bytes"].items()}
            needed = sum(parts.values())
            shares = (f"{needed / gpu.memory_gb:.0%}" for gpu in (L4, B200))
            settings = [name, str(point["processes"]), str(point["max_length"] or "-")]
            sizes_gb = [f"{size:.1f}" for size in (*parts.values(), needed)]
            rows.append([*settings, *sizes_gb, *shares, f"{point['sent'] / 1e9:.1f}"])
    gpus = (f"of {gpu.memory_gb} GB" for gpu in (L4, B200))
    return table("recipe", "processes", "max_length", *parts, "all", *gpus, "sent", rows=rows)


@cache
def _minutes() -> dict[str, str]:
    """Per assumption the minutes to create, update and delete, with the types that they hold for."""
    durations = [("anything else", ANY_CALL)]
    for record in records.every().values():
        durations += [(f"`{short_type(record.type)}`", minutes) for minutes in record.minutes]
    types_by_figures: dict[str, dict[str, list[str]]] = {
        id: {} for id in assumptions() if id.startswith("minutes-")
    }
    for what, minutes in durations:
        if minutes.assumption:
            numbers = (minutes.create, minutes.update, minutes.delete)
            figures = ", ".join("-" if number is None else f"{number:g}" for number in numbers)
            types_by_figures[minutes.assumption].setdefault(figures, []).append(what)
    return {
        id: "<br>".join(f"{', '.join(types)}: {figures}" for figures, types in groups.items())
        for id, groups in types_by_figures.items()
    }


def _stacks(plans: Mapping[str, Plan]) -> str:
    """The table of README.md: what a user has, the stacks for it, what they run, minutes and dollars."""
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
    """The text after the colon in the first line of the scenario's page."""
    return _from_page(scenario, r"\A# [^:\n]+: (.+)$", "its first line must be `# STACK: what it runs`")


def _needs(scenario: str) -> str:
    """The quota or reservation that a user needs according to the scenario's page."""
    return _from_page(scenario, r"^You need (.+)\.$", "it needs a line `You need QUOTA OR RESERVATION.`")


def _from_page(scenario: str, pattern: str, missing: str) -> str:
    page = page_of(scenario)
    match = re.search(pattern, page.read_text(), re.MULTILINE)
    if not match:
        raise DocumentationError(f"{page.relative_to(ROOT)}: {missing}")
    return match.group(1)


def _filled(path: Path, parts: Mapping[str, str]) -> str:
    """The page with the new text of every part between the part's two marks."""
    shown = path.relative_to(ROOT)
    page = path.read_text() if path.exists() else ""
    for part, text in parts.items():
        marks = f"<!-- {part}: written by `make docs` -->\n", f"<!-- end of {part} -->\n"
        before, begin, rest = page.partition(marks[0])
        _, end, after = rest.partition(marks[1])
        if not begin or not end:
            raise DocumentationError(f"{shown}: add two lines for its {part}\n{''.join(marks)}")
        page = f"{before}{begin}{text}{end}{after}"
    return page
