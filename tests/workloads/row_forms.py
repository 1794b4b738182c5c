"""Rows in the forms that people have, and what a run trains of each. A table of the docs is made of it."""

import gzip
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RowForm:
    """A file of rows with the lines of a recipe for it, and its first conversation as role and text."""

    name: str
    file: str
    content: bytes
    keys: dict[str, Any]
    turns: list[tuple[str, str]]
    tools: list[str] = field(default_factory=list)


def lines(*rows: Any) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


ASKED, REPLIED = "A lamp?", "Warm light."
TALK = [("user", ASKED), ("assistant", REPLIED)]
OPENAI = {"messages": [{"role": role, "content": text} for role, text in TALK]}
QUESTION = {"question": ASKED, "answer": REPLIED}
COLUMNS: dict[str, Any] = {"prompt": "{question}", "reply": "answer"}

ROW_FORMS = (
    RowForm(
        name="conversations of OpenAI",
        file="rows.jsonl",
        content=lines(OPENAI),
        keys={"messages": "messages"},
        turns=TALK,
    ),
    RowForm(
        name="parts in place of a text",
        file="rows.jsonl",
        content=lines(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": ASKED}]},
                    {"role": "assistant", "content": REPLIED},
                ]
            }
        ),
        keys={"messages": "messages"},
        turns=TALK,
    ),
    RowForm(
        name="ShareGPT",
        file="rows.json",
        content=json.dumps(
            [{"conversations": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": REPLIED}]}]
        ).encode(),
        keys={"messages": "conversations"},
        turns=TALK,
    ),
    RowForm(
        name="Gemini",
        file="rows.jsonl",
        content=lines(
            {
                "contents": [
                    {"role": "user", "parts": [{"text": ASKED}]},
                    {"role": "model", "parts": [{"text": REPLIED}]},
                ]
            }
        ),
        keys={"messages": "contents"},
        turns=TALK,
    ),
    RowForm(
        name="Alpaca, its input empty",
        file="rows.json",
        content=json.dumps([{"instruction": ASKED, "input": "", "output": REPLIED}], indent=1).encode(),
        keys={"prompt": "{instruction}\n{input}", "reply": "output"},
        turns=TALK,
    ),
    RowForm(
        name="Dolly, a column that may be empty",
        file="rows.jsonl",
        content=lines({"instruction": ASKED, "context": None, "response": REPLIED}),
        keys={"prompt": "{instruction} {context}", "reply": "response", "optional": ["context"]},
        turns=TALK,
    ),
    RowForm(
        name="CSV",
        file="rows.csv",
        content=f"question,answer\r\n{ASKED},{REPLIED}\r\n".encode(),
        keys=COLUMNS,
        turns=TALK,
    ),
    RowForm(
        name="CSV with semicolons, and line breaks in quotes",
        file="rows.csv",
        content=b'\xef\xbb\xbfquestion;answer\n"one\ntwo";007\n',
        keys=COLUMNS,
        turns=[("user", "one\ntwo"), ("assistant", "007")],
    ),
    RowForm(
        name="compressed with gzip",
        file="rows.jsonl.gz",
        content=gzip.compress(lines(QUESTION), mtime=0),
        keys=COLUMNS,
        turns=TALK,
    ),
    RowForm(
        name="dates and numbers in quotes",
        file="rows.jsonl",
        content=lines({"question": "2025-06-01T10:00:00Z", "answer": "1e5"}),
        keys=COLUMNS,
        turns=[("user", "2025-06-01T10:00:00Z"), ("assistant", "1e5")],
    ),
    RowForm(
        name="numbers, booleans, lists and objects",
        file="rows.jsonl",
        content=lines({"question": {"is": [True, 1.5]}, "answer": 7}),
        keys=COLUMNS,
        turns=[("user", '{"is": [true, 1.5]}'), ("assistant", "7")],
    ),
    RowForm(
        name="conversations as JSON text",
        file="rows.csv",
        content=b'chat\n"' + json.dumps(OPENAI["messages"]).replace('"', '""').encode() + b'"\n',
        keys={"messages": "chat"},
        turns=TALK,
    ),
    RowForm(
        name="calls in OpenAI's older form",
        file="rows.jsonl",
        content=lines(
            {
                "messages": [
                    {"role": "user", "content": ASKED},
                    {
                        "role": "assistant",
                        "content": None,
                        "function_call": {"name": "find", "arguments": '{"what": "lamp"}'},
                    },
                    {"role": "function", "name": "find", "content": "one"},
                    {"role": "assistant", "content": REPLIED},
                ]
            }
        ),
        keys={"messages": "messages"},
        turns=[("user", ASKED), ("assistant", ""), ("tool", "one"), ("assistant", REPLIED)],
        tools=["find"],
    ),
    RowForm(
        name="plain texts",
        file="rows.jsonl",
        content=lines({"article": REPLIED}),
        keys={"text": "article"},
        turns=[("text", REPLIED)],
    ),
)


def table() -> str:
    """The forms as a table of docs/training/own-data.md."""
    head = "| your rows | in a file such as | keys of `data` |\n| --- | --- | --- |\n"
    lines = [f"| {form.name} | `{form.file}` | {_keys(form.keys)} |\n" for form in ROW_FORMS]
    return head + "".join(lines)


def _keys(keys: dict[str, Any]) -> str:
    values = {key: json.dumps(value) if key == "prompt" else value for key, value in keys.items()}
    texts = {
        key: f"[{', '.join(value)}]" if isinstance(value, list) else value for key, value in values.items()
    }
    return ", ".join(f"`{key}: {value}`" for key, value in texts.items())
