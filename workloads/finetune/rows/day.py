"""The day that a chat template writes into its prompts: the first day of the run.

Llama 3.2, gpt-oss and others write today's date. A run that resumes on another day would train other rows.
Processes that start around midnight would hold rows of two days.
"""

from datetime import UTC, date, datetime, time
from types import SimpleNamespace
from typing import Any

# The function with which a template asks for the time.
ASKS = "strftime_now"


def today() -> str:
    """The date of today in UTC, as `keep` takes it."""
    return datetime.now(UTC).date().isoformat()


def keep(day: str | None) -> None:
    """Have every chat template of this process write that day from now on. None leaves today's."""
    from transformers.utils import chat_template_utils

    if day is None:
        return
    noon = datetime.combine(date.fromisoformat(day), time(12))
    patched: Any = chat_template_utils
    patched.datetime = SimpleNamespace(now=lambda: noon)


def line(template: Any, day: str) -> str | None:
    """A line about the day in the prompts of a run, or None if the template writes none."""
    if ASKS not in str(template):
        return None
    return (
        f"the chat template writes a date into every prompt: the run keeps {day}, the day on which it began, "
        "and a server writes its own"
    )
