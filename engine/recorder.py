"""What the engine reports while it works: changes and errors."""

import re
from dataclasses import dataclass, field
from typing import Final

from pulumi.automation import events

_MARKUP: Final = re.compile(r"<\{%.*?%\}>")
# Steps that leave everything as it is.
UNCHANGED: Final = ("same", "read", "refresh")


@dataclass
class Result:
    """What an operation did; it is called with the engine's events one by one.

    Args:
        changes: How many resources were created, updated, deleted, left the same, ...
        steps: Operation and logical name of what succeeded, in the order in which it ended.
        errors: What went wrong.
    """

    changes: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __call__(self, event: events.EngineEvent) -> None:
        """Takes one event."""
        if event.res_outputs_event:
            step = event.res_outputs_event.metadata
            self.steps.append((_text(step.op), _name(step.urn)))
        elif event.summary_event:
            self.changes = {_text(op): n for op, n in event.summary_event.resource_changes.items()}
        elif event.diagnostic_event and event.diagnostic_event.severity == "error":
            self._note_error(event.diagnostic_event)

    @property
    def changed(self) -> int:
        """Number of resources that did not stay the same."""
        return sum(count for operation, count in self.changes.items() if operation not in UNCHANGED)

    @property
    def message(self) -> str:
        """The errors, each once."""
        return "\n".join(dict.fromkeys(self.errors))

    def _note_error(self, diagnostic: events.DiagnosticEvent) -> None:
        name = _name(diagnostic.urn or "")
        text = _MARKUP.sub("", diagnostic.message).strip()
        if text and not _is_aftermath(text):
            self.errors.append(f"{name}: {text}" if name and not name.startswith("llm-stacks-") else text)


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def _text(operation: object) -> str:
    """`create` for the SDK's enumeration member as for a plain text."""
    return str(getattr(operation, "value", operation))


def _is_aftermath(text: str) -> bool:
    """Whether a diagnostic only says that an earlier one ended the operation."""
    return text.startswith(("update failed", "preview failed", "an unhandled error occurred: "))
