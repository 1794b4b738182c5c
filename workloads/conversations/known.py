"""The forms of rows that people have, and the lines of a recipe for each."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Form:
    """Rows of one form.

    Args:
        keys: Columns by which a row is known.
        lines: What the section data of a recipe says for them.
    """

    name: str
    keys: tuple[str, ...]
    lines: str


_ALPACA = 'prompt: "{instruction}\\n{input}", reply: output, optional: [input]'
# The first one whose keys a row has is meant.
FORMS = (
    Form(name="conversations", keys=("messages",), lines="messages: messages"),
    Form(name="conversations", keys=("conversations",), lines="messages: conversations"),
    Form(name="conversations", keys=("conversation",), lines="messages: conversation"),
    Form(name="conversations", keys=("contents",), lines="messages: contents"),
    Form(name="Alpaca", keys=("instruction", "input", "output"), lines=_ALPACA),
    Form(name="Alpaca", keys=("instruction", "output"), lines='prompt: "{instruction}", reply: output'),
    Form(
        name="Dolly",
        keys=("instruction", "context", "response"),
        lines='prompt: "{instruction}\\n{context}", reply: response, optional: [context]',
    ),
    Form(
        name="preferences",
        keys=("prompt", "chosen", "rejected"),
        lines='prompt: "{prompt}", reply: chosen, rejected: rejected, beside task: preference',
    ),
    Form(
        name="preferences",
        keys=("chosen", "rejected"),
        lines="messages: chosen, rejected: rejected, beside task: preference",
    ),
    Form(
        name="preferences",
        keys=("instruction", "chosen_response", "rejected_response"),
        lines='prompt: "{instruction}", reply: chosen_response, rejected: rejected_response, beside task: '
        "preference",
    ),
    Form(
        name="preferences",
        keys=("input", "preferred_output", "non_preferred_output"),
        lines="messages: input, reply: preferred_output, rejected: non_preferred_output, beside task: "
        "preference",
    ),
    *(
        Form(name="questions and answers", keys=keys, lines=f'prompt: "{{{keys[0]}}}", reply: {keys[1]}')
        for keys in (
            ("prompt", "completion"),
            ("prompt", "response"),
            ("question", "answer"),
            ("query", "response"),
            ("question", "response"),
            ("instruction", "response"),
            ("input", "output"),
        )
    ),
    Form(
        name="a tree of messages",
        keys=("message_id", "parent_id", "text"),
        lines="rows: my_rows.py:function, whose function joins the messages from the first to a reply",
    ),
    Form(name="plain texts", keys=("text",), lines="text: text, and training.max_length"),
)


def no_column(missing: Collection[str], keys: Collection[str]) -> str:
    """What to say when a recipe names columns that rows do not have."""
    form = next((form for form in FORMS if set(form.keys) <= set(keys)), None)
    advice = f"; as {form.name} they need, in data: {form.lines}" if form else ""
    return f"has no column {', '.join(missing)}; it has {', '.join(keys)}{advice}"
