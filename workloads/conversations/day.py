"""The day that a chat template writes into its prompts: the first day of the run.

Llama 3.2, gpt-oss and others write today's date. A run that resumes on another day would train other rows.
Processes that start around midnight would hold rows of two days.
"""

from datetime import UTC, date, datetime, time
from types import SimpleNamespace
from typing import Any

from conversations.chat_template import ChatTemplate, Conversation
from shared.errors import InputError

# The function with which a template asks for the time.
ASKS = "strftime_now"
# Days of which year, month, day and weekday differ.
OTHER_DAYS = ("2001-02-03", "2031-11-28")
USER = {"role": "user", "content": "Hello"}
TALKS = ([USER], [{"role": "system", "content": "Hi"}, USER])


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


def is_written(tokenizer: Any) -> bool:
    """Whether the chat template writes other prompts on another day."""
    if ASKS not in str(tokenizer.chat_template):
        return False
    return _prompts_on(OTHER_DAYS[0], tokenizer) != _prompts_on(OTHER_DAYS[1], tokenizer)


def prompts(tokenizer: Any) -> list[str]:
    """The prompts of short conversations, with the day in them if the chat template writes it."""
    return [_prompt(talk, tokenizer) for talk in TALKS]


def line(tokenizer: Any, day: str) -> str | None:
    """A line about the day in the prompts of a run, or None if the template writes none."""
    if not is_written(tokenizer):
        return None
    return (
        f"the chat template writes a date into every prompt: the run keeps {day}, the day on which it began, "
        "and a server writes its own"
    )


def _prompts_on(day: str, tokenizer: Any) -> list[str]:
    """The prompts of short conversations on a day, with a system message and without. Empty if refused."""
    from transformers.utils import chat_template_utils

    patched: Any = chat_template_utils
    before = patched.datetime
    try:
        keep(day)
        return prompts(tokenizer)
    finally:
        patched.datetime = before


def _prompt(talk: Conversation, tokenizer: Any) -> str:
    try:
        return ChatTemplate(tokenizer).prompt(talk)
    except InputError:
        return ""
