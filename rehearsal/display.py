"""How plans and paths look in a terminal."""

from typing import Final

from rich.text import Text
from rich.tree import Tree

from engine.plan import Plan, short_type
from rehearsal.schedule import Phase

_SIGNS: Final = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "replace": ("+-", "magenta"),
    "delete": ("-", "red"),
}


def tree(plan: Plan) -> Tree:
    """The plan as a tree of components and resources."""
    root = Tree(Text("plan", style="bold"))
    nodes: dict[str, Tree] = {}
    for resource in plan.resources:
        sign, colour = _SIGNS.get(resource.op, (" ", ""))
        label = ((f"{sign} ", colour), resource.name, (f"  {short_type(resource.type)}", "dim"))
        nodes[resource.urn] = nodes.get(resource.parent, root).add(Text.assemble(*label))
    return root


def path_line(phase: Phase) -> str:
    """A critical path as one line."""
    steps = (f"{step.name} ({step.minutes:.3g})" for step in phase.critical_path)
    return f"{phase.minutes:.3g} min: {' > '.join(steps)}"
