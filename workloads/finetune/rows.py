"""Rows as conversations. No library is needed, so that preflight can look at rows as the run does."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finetune.sections import Data

# The roles of a conversation, in order.
ROLES = re.compile("(system )?(user assistant )+")


def to_conversations(data: "Data", rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Turn a batch of raw rows into a batch of conversations, both by column."""
    if data.messages:
        turns = [_turns(data, row) for row in rows[data.messages]]
        return {"prompt": [row[:-1] for row in turns], "completion": [row[-1:] for row in turns]}
    count = len(rows[data.reply])
    values = [{name: rows[column][row] for name, column in data.fields.items()} for row in range(count)]
    conversations: dict[str, list[Any]] = {
        "prompt": [_prompt(data, row) for row in values],
        "completion": [[{"role": "assistant", "content": reply}] for reply in rows[data.reply]],
    }
    if data.image:
        # The model expects three channels. Pictures with transparency or a palette have another number.
        conversations["images"] = [[image.convert("RGB")] for image in rows[data.image]]
    return conversations


def _prompt(data: "Data", values: dict[str, str]) -> list[dict[str, str]]:
    system = [{"role": "system", "content": data.system}] if data.system else []
    return [*system, {"role": "user", "content": data.prompt.format(**values)}]


def _turns(data: "Data", messages: Any) -> list[dict[str, str]]:
    """Role and content of each message. Raises ValueError when they are not a conversation."""
    try:
        turns = [{part: message[part] for part in ("role", "content")} for message in messages]
        roles = "".join(f"{turn['role']} " for turn in turns)
    except (KeyError, TypeError):
        turns, roles = [], ""
    if not ROLES.fullmatch(roles) or any(not isinstance(turn["content"], str | None) for turn in turns):
        raise ValueError(
            f"{data.messages} must be a list of role and content, a text: system, if any, then user and "
            f"assistant in turns to a last reply, not {roles or 'this'}"
        )
    return turns


def is_complete(data: "Data", row: Mapping[str, Any]) -> bool:
    """Whether no text of a row is empty. An empty one would appear in the prompt as the word None.

    Args:
        row: Only the columns that hold text.

    Raises:
        ValueError: If the run cannot use the row.
    """
    return all(text is not None and str(text).strip() for text in _texts(data, row))


def _texts(data: "Data", row: Mapping[str, Any]) -> list[Any]:
    if data.messages:
        messages = row[data.messages]
        return [None] if messages is None else [turn["content"] for turn in _turns(data, messages)]
    if not isinstance(row[data.reply], str | None):
        raise ValueError(f"{data.reply} must be a text, not {row[data.reply]!r}")
    return list(row.values())


def conversation(data: "Data", row: Mapping[str, Any]) -> list[dict[str, str]]:
    """The turns of one row, without its picture. Empty for a row that is left out, since a text is empty.

    Raises:
        ValueError: If a run ends at the row.
    """
    text_row = {column: row[column] for column in dict.fromkeys(data.texts)}
    if not is_complete(data, text_row):
        return []
    batch = {column: [value] for column, value in text_row.items()}
    turns = to_conversations(data.model_copy(update={"image": None}), batch)
    return [*turns["prompt"][0], *turns["completion"][0]]
