"""Records what the engine reports during an operation: changes and errors."""

import re
from dataclasses import dataclass, field
from typing import Final

from pulumi.automation import events

_MARKUP: Final = re.compile(r"<\{%.*?%\}>")
# Errors that only say that an earlier one ended the operation.
AFTERMATH: Final = ("update failed", "preview failed", "an unhandled error occurred: ")
# Steps that change nothing.
UNCHANGED: Final = ("same", "read", "refresh")


@dataclass
class Result:
    """The result of an operation. The object is called with the engine's events one by one.

    Args:
        changes: How many resources were created, updated, deleted, left the same, and so on.
        steps: Operation and logical name of every step that succeeded, in the order of their ends.
        errors: The messages of the errors.
    """

    changes: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __call__(self, event: events.EngineEvent) -> None:
        """Handles one event."""
        if event.res_outputs_event:
            step = event.res_outputs_event.metadata
            self.steps.append((operation_name(step.op), _name(step.urn)))
        elif event.summary_event:
            self.changes = {operation_name(op): n for op, n in event.summary_event.resource_changes.items()}
        elif event.diagnostic_event and event.diagnostic_event.severity == "error":
            name = _name(event.diagnostic_event.urn or "")
            text = plain(event.diagnostic_event.message)
            if text and not text.startswith(AFTERMATH):
                self.errors.append(f"{name}: {text}" if name and not name.startswith("llm-stacks-") else text)

    @property
    def changed(self) -> int:
        """Number of resources that did not stay the same."""
        return sum(count for operation, count in self.changes.items() if operation not in UNCHANGED)

    @property
    def message(self) -> str:
        """The errors, each once."""
        return "\n".join(dict.fromkeys(self.errors))


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def plain(message: str) -> str:
    """A message without the engine's marks for colours."""
    return _MARKUP.sub("", message).strip()


def operation_name(operation: object) -> str:
    """`create` for the SDK's enumeration member as for a plain text."""
    return str(getattr(operation, "value", operation))
