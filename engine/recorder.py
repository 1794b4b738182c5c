"""What the engine reports while it works: progress, changes, errors, and how long each step took."""

import re
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from pulumi.automation import events

_MARKUP: Final = re.compile(r"<\{%.*?%\}>")
# Steps that leave everything as it is.
UNCHANGED: Final = ("same", "read", "refresh")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One step of the engine on one resource.

    Args:
        urn: The resource.
        type: Its type.
        operation: `create`, `update`, `delete`, ...
        start: Seconds since the operation began.
        end: Seconds since the operation began.
        failed: Whether the step failed.
    """

    urn: str
    type: str
    operation: str
    start: float
    end: float
    failed: bool = False

    @property
    def name(self) -> str:
        """Logical name."""
        return self.urn.split("::")[-1]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What an operation did.

    Args:
        changes: How many resources were created, updated, deleted, left the same, ...
        intervals: The steps that changed something, in the order in which they ended.
        seconds: How long the whole operation took.
    """

    changes: dict[str, int]
    intervals: list[Interval]
    seconds: float

    @property
    def changed(self) -> int:
        """Number of resources that did not stay the same."""
        return sum(count for operation, count in self.changes.items() if operation not in UNCHANGED)


@dataclass
class Recorder:
    """Receives the engine's events of one operation."""

    errors: list[str] = field(default_factory=list)
    _changes: dict[str, int] = field(default_factory=dict)
    _intervals: list[Interval] = field(default_factory=list)
    _open: dict[tuple[str, str], float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: events.EngineEvent) -> None:
        """Takes one event."""
        with self._lock:
            if event.resource_pre_event:
                self._begin(event.resource_pre_event.metadata)
            elif event.res_outputs_event:
                self._finish(event.res_outputs_event.metadata, failed=False)
            elif event.res_op_failed_event:
                self._finish(event.res_op_failed_event.metadata, failed=True)
            elif event.summary_event:
                self._changes = {_text(op): n for op, n in event.summary_event.resource_changes.items()}
            elif event.diagnostic_event and event.diagnostic_event.severity == "error":
                self._note_error(event.diagnostic_event)

    @property
    def result(self) -> Result:
        """Everything so far."""
        with self._lock:
            return Result(
                changes=dict(self._changes),
                intervals=list(self._intervals),
                seconds=time.monotonic() - self._began,
            )

    @property
    def message(self) -> str:
        """The errors, each once."""
        with self._lock:
            return "\n".join(dict.fromkeys(self.errors))

    def _begin(self, step: events.StepEventMetadata) -> None:
        self._open[step.urn, _text(step.op)] = time.monotonic() - self._began

    def _finish(self, step: events.StepEventMetadata, *, failed: bool) -> None:
        operation = _text(step.op)
        end = time.monotonic() - self._began
        start = self._open.pop((step.urn, operation), None)
        if start is None:  # the stack reports its outputs a second time
            return
        if operation not in UNCHANGED:
            self._intervals.append(
                Interval(
                    urn=step.urn, type=step.type, operation=operation, start=start, end=end, failed=failed
                )
            )

    def _note_error(self, diagnostic: events.DiagnosticEvent) -> None:
        name = (diagnostic.urn or "").split("::")[-1]
        text = _MARKUP.sub("", diagnostic.message).strip()
        if text and not _is_aftermath(text):
            self.errors.append(f"{name}: {text}" if name and not name.startswith("llm-stacks-") else text)


def _text(operation: object) -> str:
    """`create` for the SDK's enumeration member as for a plain text."""
    return str(getattr(operation, "value", operation))


def _is_aftermath(text: str) -> bool:
    """Whether a diagnostic only says that an earlier one ended the operation."""
    return text.startswith(("update failed", "preview failed", "an unhandled error occurred: "))
