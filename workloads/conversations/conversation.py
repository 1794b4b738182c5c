"""A row of a file as a conversation, as the recipe says."""

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from conversations.columns import EMPTY, Columns, RowError, is_gap
from conversations.pictures import IMAGE, MISSING, pictures_in
from conversations.turns import TEXT, TURN_FORMS, UNTRAINED, Turn, is_said, thoughts_of, tools_of, turns_of

# Alpaca's input is empty in half of its rows.
_ALPACA = {"instruction", "input"}


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The turns of a row.

    Attributes:
        turns: The last one is a reply. A plain text is one turn, whose role is TEXT.
        pictures: Bytes, paths or decoded pictures, in the order of their places in the turns.
        rejected: The reply that is to be avoided, for a pair of replies.
    """

    turns: list[Turn]
    tools: list[Any] | None = None
    pictures: list[Any] = field(default_factory=list)
    rejected: Turn | None = None

    @property
    def thinks(self) -> bool:
        """Whether a reply that is trained has thoughts before it."""
        return any(bool(thoughts_of(turn)[0]) for turn in self.turns if is_trained(turn))


def is_trained(turn: Mapping[str, Any]) -> bool:
    """Whether a turn is a reply that is trained."""
    return turn["role"] == "assistant" and not turn.get(UNTRAINED)


def read_row(columns: Columns, row: Mapping[str, Any]) -> Conversation:
    """The conversation of a row as it stands in a file. Raises RowError for a row that cannot be trained."""
    if columns.messages:
        return _whole(columns, row, columns.messages)
    if columns.text:
        return Conversation(turns=[{"role": TEXT, "content": _needed(row, columns.text)}])
    empty = _optional(columns)
    values = {
        name: "" if column in empty and is_gap(row.get(column)) else _without_turns(row, column)
        for name, column in columns.fields.items()
    }
    if any(is_gap(value) for name, value in values.items() if columns.fields[name] not in empty):
        raise RowError(EMPTY)
    asked = _written(columns.prompt, values)
    # An optional column that is empty leaves blanks behind.
    asked = asked.strip() if any(value == "" for value in values.values()) else asked
    if is_gap(asked):
        raise RowError(EMPTY)
    system = [{"role": "system", "content": columns.system}] if columns.system else []
    reply = {"role": "assistant", "content": _needed(row, columns.reply)}
    return Conversation(
        turns=[*system, {"role": "user", "content": asked}, reply], pictures=_pictures(columns, row)
    )


def as_text(value: Any) -> str:
    """A value as a text: itself, or as JSON writes it. A date or a decimal number of parquet has no quotes.

    Raises RowError for bytes.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=_in_json)


def _in_json(value: Any) -> Any:
    """A value of parquet within a list or an object. JSON has no type for it."""
    if isinstance(value, bytes):
        raise RowError("they hold bytes in place of a text", f"a column has bytes, such as {value[:20]!r}")
    return float(value) if isinstance(value, Decimal) else str(value)


def _written(prompt: str, values: Mapping[str, Any]) -> str:
    try:
        return _Prompt().format(prompt, **values)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        if isinstance(error, RowError):
            raise
        raise RowError(
            "a placeholder of the prompt does not take its value", f"data.prompt: {error}"
        ) from error


class _Prompt(string.Formatter):
    """Writes a prompt. A placeholder with a format, such as {price:.2f}, gets the value itself."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        return super().format_field(value if format_spec else as_text(value), format_spec)


def _needed(row: Mapping[str, Any], column: str) -> str:
    value = _without_turns(row, column)
    if is_gap(value):
        raise RowError(EMPTY)
    return as_text(value)


def _without_turns(row: Mapping[str, Any], column: str) -> Any:
    """The value of a column that holds a text. Raises RowError for a turn or a list of turns."""
    value = row.get(column)
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, Mapping) and any({form.role, form.content} <= {*first} for form in TURN_FORMS):
        raise RowError(
            "they hold turns in place of a text",
            f"{column} holds turns, each with {', '.join(map(str, first))}: write messages: {column} if it "
            "has the whole conversation; a function in data.rows puts several columns of turns into one",
        )
    return value


def _optional(columns: Columns) -> Sequence[str]:
    named = {*columns.fields.values()}
    return [*columns.optional, *(["input"] if named >= _ALPACA and columns.reply == "output" else [])]


def _pictures(columns: Columns, row: Mapping[str, Any]) -> list[Any]:
    if not columns.image:
        return []
    pictures = pictures_in(row.get(columns.image))
    if not pictures and columns.image not in columns.optional:
        raise RowError(MISSING, f"{columns.image} is empty: the row has no picture")
    return pictures


def _whole(columns: Columns, row: Mapping[str, Any], column: str) -> Conversation:
    messages = row.get(column)
    if messages is None:
        raise RowError(EMPTY)
    pictures: list[Any] | None = None
    if columns.image:
        pictures = [] if columns.image == column else pictures_in(row.get(columns.image))
    tools = tools_of(columns.tools, row.get(columns.tools)) if columns.tools else None
    turns = turns_of(column, messages, pictures)
    if not any(map(is_trained, turns)) or not all(map(is_said, turns)):
        raise RowError(EMPTY)
    if any(part.get("type") == IMAGE for turn in turns if turn["role"] != "user" for part in _parts(turn)):
        raise RowError("a picture is in another turn than a user's")
    return Conversation(turns=turns, tools=tools, pictures=pictures or [])


def _parts(turn: Turn) -> list[Any]:
    return turn["content"] if isinstance(turn["content"], list) else []
