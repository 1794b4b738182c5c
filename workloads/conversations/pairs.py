"""A row with two replies to the same turns: one to prefer, and one to avoid."""

import json
from collections.abc import Mapping
from typing import Any

from conversations.columns import EMPTY, Columns, RowError, is_gap
from conversations.conversation import Conversation, as_text, read_row
from conversations.turns import NO_CONVERSATION, UNTRAINED, Turn, is_said, tools_of, turns_of

SAME = "both replies are the same"
TOO_DEEP = "a value is nested too deep"
DIFFERENT = "their two conversations differ before the last reply"
# How a text of HH-RLHF begins, which has all turns in it.
_HH_RLHF = "Human:"
# More levels of lists and objects would end in the limit of Python's recursion, in one library or another.
_MOST_LEVELS = 100
# Stands where a turn of a known form is wanted.
_ANY = "-"


def read(columns: Columns, row: Mapping[str, Any]) -> Conversation:
    """The conversation of a row, with the rejected reply if the recipe has a column for it.

    Raises RowError for a row that cannot be trained.
    """
    try:
        conversation = _read(columns, row)
    except RecursionError:
        raise RowError(TOO_DEEP) from None
    values = [row.get(column) for column in columns.fields.values()]
    if _is_deep([conversation.turns, conversation.tools, conversation.rejected, values]):
        raise RowError(TOO_DEEP)
    return conversation


def _is_deep(values: list[Any]) -> bool:
    """Whether lists and objects have too many levels."""
    for _ in range(_MOST_LEVELS):
        values = [value for value in values if isinstance(value, dict | list)]
        if not values:
            return False
        values = [part for value in values for part in (value.values() if isinstance(value, dict) else value)]
    return True


def _read(columns: Columns, row: Mapping[str, Any]) -> Conversation:
    if not columns.rejected:
        return read_row(columns, row)
    if columns.messages and not columns.reply:
        pair = _whole(columns.messages, columns.rejected, row)
    else:
        before = _before(columns, row)
        chosen, rejected = (_reply(name, row.get(name)) for name in (columns.reply, columns.rejected))
        pair = Conversation(turns=[*before, chosen], rejected=rejected)
    if pair.turns[-1] == pair.rejected:
        raise RowError(SAME)
    tools = tools_of(columns.tools, row.get(columns.tools)) if columns.tools else None
    return Conversation(turns=pair.turns, tools=tools, rejected=pair.rejected)


def _whole(chosen: str, rejected: str, row: Mapping[str, Any]) -> Conversation:
    """Two conversations that differ in the last reply."""
    both = [_turns(name, row.get(name)) for name in (chosen, rejected)]
    if both[0][:-1] != both[1][:-1]:
        raise RowError(DIFFERENT)
    return Conversation(turns=[*both[0][:-1], _said(both[0][-1])], rejected=_said(both[1][-1]))


def _before(columns: Columns, row: Mapping[str, Any]) -> list[Turn]:
    """The turns before the two replies."""
    if not columns.messages:
        return read_row(columns, {**row, columns.reply: _ANY}).turns[:-1]
    turns = row.get(columns.messages)
    if isinstance(turns, dict):
        # OpenAI's form of preferences.
        if turns.get("tools"):
            raise RowError(
                "their tools are beside the messages, in one column",
                f"{columns.messages} has messages and tools: with a function in data.rows, put them into two "
                "columns, and write tools: COLUMN",
            )
        turns = turns.get("messages")
    if isinstance(turns, str):
        try:
            turns = json.loads(turns)
        except (ValueError, RecursionError):
            turns = [{"role": "user", "content": turns}]
    if not isinstance(turns, list):
        turns = []
    return turns_of(columns.messages, [*turns, {"role": "assistant", "content": _ANY}], None)[:-1]


def _reply(column: str, value: Any) -> Turn:
    """A reply that is a text, a turn, or a list of one turn."""
    if is_gap(value) or value == []:
        raise RowError(EMPTY)
    turns = [value] if isinstance(value, dict) and not {"role", "from"}.isdisjoint(value) else value
    if not (isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns)):
        return {"role": "assistant", "content": as_text(value)}
    replies = _turns(column, [{"role": "user", "content": _ANY}, *turns])[1:]
    if len(replies) != 1:
        raise RowError(
            NO_CONVERSATION,
            f"{column} has {len(replies)} turns in place of one reply; if it has the whole conversation, "
            f"write messages: COLUMN of the chosen one, and no reply",
        )
    return _said(replies[0])


def _turns(column: str, value: Any) -> list[Turn]:
    if isinstance(value, str) and value.lstrip().startswith(_HH_RLHF):
        raise RowError(
            "they are texts of HH-RLHF, with all turns in one",
            f"{column} is one text with all turns, as HH-RLHF has them: with a function in data.rows, split "
            "it at Human: and Assistant: into a list of role and content",
        )
    if is_gap(value):
        raise RowError(EMPTY)
    return turns_of(column, value, None)


def _said(turn: Turn) -> Turn:
    if not is_said(turn):
        raise RowError(EMPTY)
    return {name: value for name, value in turn.items() if name != UNTRAINED}
