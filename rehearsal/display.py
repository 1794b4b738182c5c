"""How plans, operations and paths look in a terminal."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from pulumi.automation.events import DiagnosticEvent, EngineEvent, OpType, StepEventMetadata
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.text import Text
from rich.theme import Theme
from rich.tree import Tree

from engine.go_build import Log
from engine.plan import Plan, short_type
from engine.recorder import operation_name, plain
from rehearsal.schedule import Phase

_SIGNS: Final = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "replace": ("+-", "magenta"),
    "delete": ("-", "red"),
}
# The sentence of components/base/retries.py, which the program prints for a person who waits.
_WAIT: Final = re.compile(r"(?P<name>\S+) waits: (?P<reason>.*); tried again in ")
# The engine's own message about the same retry.
_RETRY: Final = "due to on-error hook request"
# The one refusal that the rehearsal does not make: a real Kueue whose webhook is not reached yet.
_REAL_REFUSAL: Final = "webhook"
_DEFAULT_PROVIDER: Final = re.compile("::pulumi:providers:[^:]+::default")
_CHANGES: Final = {"create": "+", "update": "~", "create-replacement": "+-"}
# The word for the number of resources that an operation has changed.
_COUNTED: Final = {
    "create": "created",
    "update": "updated",
    "replace": "replaced",
    "delete": "deleted",
    "delete-replaced": "deleted",
}


class _Colours(RegexHighlighter):
    """Colours of a line's sign and type."""

    base_style = "rehearsal."
    highlights = (
        r"^ (?P<create>\+) ",
        r"^ (?P<update>~) ",
        r"^(?P<replace>\+-) ",
        r"^[ +][+~-] \S+  (?P<type>\S+)$",
        r": (?P<refusal>refused on purpose), ",
    )


_THEME: Final = Theme(
    {
        **{f"rehearsal.{operation}": colour for operation, (_, colour) in _SIGNS.items()},
        "rehearsal.type": "dim",
        "rehearsal.refusal": "yellow",
    }
)
CONSOLE: Final = Console(highlighter=_Colours(), theme=_THEME)


def head(title: str) -> None:
    """Prints the title of a phase."""
    CONSOLE.rule(title, align="left")


def say(text: str) -> None:
    """Prints a line at once, also into a file. A long line is not wrapped."""
    CONSOLE.out(text)


def show_plan(plan: Plan) -> None:
    """Prints a plan as a tree of components and resources, and how many resources it changes."""
    if not plan.changed:
        say("nothing would change")
        return
    root = Tree(Text("plan", style="bold"))
    nodes: dict[str, Tree] = {}
    for resource in plan.resources:
        sign, colour = _SIGNS.get(resource.op, (" ", ""))
        label = ((f"{sign} ", colour), resource.name, (f"  {short_type(resource.type)}", "dim"))
        nodes[resource.urn] = nodes.get(resource.parent, root).add(Text.assemble(*label))
    CONSOLE.print(root, soft_wrap=True)


def path_line(phase: Phase) -> str:
    """A critical path as one line."""
    steps = (f"{step.name} ({step.minutes:.3g})" for step in phase.critical_path)
    return f"{phase.minutes:.3g} min: {' > '.join(steps)}"


class OperationLog:
    """Prints a line for a resource that the engine creates or changes, and counts at the end.

    Deletions are only counted. The object is called with the engine's events one by one.

    Args:
        log: Receives the lines.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def __call__(self, event: EngineEvent) -> None:
        """Handles one event of an operation that is no preview."""
        if event.res_outputs_event:
            self._show_resource(event.res_outputs_event.metadata)
        elif event.diagnostic_event and not event.diagnostic_event.ephemeral:
            self._show_message(event.diagnostic_event)
        elif event.summary_event:
            self._show_counts(event.summary_event.resource_changes)

    def _show_resource(self, step: StepEventMetadata) -> None:
        # Components only group resources, and the engine adds default providers by itself.
        name = step.urn.rpartition("::")[2]
        is_resource = step.new and step.new.custom and not _DEFAULT_PROVIDER.search(step.urn)
        if is_resource and (sign := _CHANGES.get(operation_name(step.op))):
            self._log(f"{sign:>2} {name}  {short_type(step.type)}")

    def _show_message(self, message: DiagnosticEvent) -> None:
        text = plain(message.message)
        # An error is the message of the exception that ends the operation.
        if message.severity == "error" or not text or _RETRY in text:
            return
        if wait := _WAIT.match(text):
            is_real = _REAL_REFUSAL in wait["reason"]
            refusal = "refused" if is_real else "refused on purpose"
            text = f"{wait['name']}: {refusal}, {wait['reason']}; tried again"
        self._log(text)

    def _show_counts(self, changes: Mapping[OpType, int]) -> None:
        counts: Counter[str] = Counter()
        for operation, count in changes.items():
            if word := _COUNTED.get(operation_name(operation)):
                counts[word] += count
        self._log(", ".join(f"{count} {word}" for word, count in counts.items()) or "nothing changed")
