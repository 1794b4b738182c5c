"""How plans, operations and paths look in a terminal."""

import re
from typing import Final

from pulumi.automation.events import DiagnosticEvent, EngineEvent, StepEventMetadata
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from engine.go_build import Log
from engine.plan import Plan, short_type
from engine.recorder import operation_name, plain
from rehearsal.schedule import Phase

CONSOLE: Final = Console()
_SIGNS: Final = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "replace": ("+-", "magenta"),
    "delete": ("-", "red"),
}
# As components/retries.py says it, which the program tells a person who waits.
_WAIT: Final = re.compile(r"(?P<name>\S+) waits: (?P<reason>.*); tried again in ")
# The engine's own words about the same.
_RETRY: Final = "due to on-error hook request"
# The one refusal that the rehearsal does not make: a real Kueue whose webhook is not reached yet.
_REAL_REFUSAL: Final = "webhook"
_DEFAULT_PROVIDER: Final = re.compile("::pulumi:providers:[^:]+::default")
_DELETIONS: Final = ("delete", "delete-replaced")
_CHANGES: Final = {"create": "+", "update": "~", "create-replacement": "+-"}


def head(title: str) -> None:
    """Prints the title of a phase."""
    CONSOLE.rule(title, align="left")


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


class OperationLog:
    """Says what the engine does: a line for a resource that it creates or changes, and deletions as a count.

    It is called with the engine's events one by one.

    Args:
        log: Takes the lines.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._deletes = False

    def __call__(self, event: EngineEvent) -> None:
        """Takes one event of an operation that is no preview."""
        if (begin := event.resource_pre_event) and _operation(begin.metadata) in _DELETIONS:
            if not self._deletes:
                self._log("deleting")
            self._deletes = True
        elif event.res_outputs_event:
            self._show_resource(event.res_outputs_event.metadata)
        elif event.diagnostic_event and not event.diagnostic_event.ephemeral:
            self._show_message(event.diagnostic_event)
        elif event.summary_event:
            changes = {
                operation_name(name): count for name, count in event.summary_event.resource_changes.items()
            }
            if deleted := sum(changes.get(name, 0) for name in _DELETIONS):
                self._log(f"{deleted} deleted")
            self._deletes = False

    def _show_resource(self, step: StepEventMetadata) -> None:
        # Components are only names for what is in them, and the default providers only the engine's.
        name = step.urn.rpartition("::")[2]
        is_resource = step.new and step.new.custom and not _DEFAULT_PROVIDER.search(step.urn)
        if is_resource and (sign := _CHANGES.get(_operation(step))):
            self._log(f"{sign:>2} {name}  {short_type(step.type)}")

    def _show_message(self, message: DiagnosticEvent) -> None:
        text = plain(message.message)
        # What an operation failed of is its exception's message.
        if message.severity == "error" or not text or _RETRY in text:
            return
        if wait := _WAIT.match(text):
            is_real = _REAL_REFUSAL in wait["reason"]
            refusal = "refused" if is_real else "refused on purpose"
            text = f"{wait['name']}: {refusal}, {wait['reason']}; tried again"
        self._log(text)


def _operation(step: StepEventMetadata) -> str:
    return operation_name(step.op)
