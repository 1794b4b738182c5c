"""Rows as conversations. No library is needed, so that preflight can look at rows as the run does."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finetune.settings.sections import Data

# The roles of a conversation, in order. A reply may call tools, whose results follow as turns of theirs.
ROLES = re.compile("((system|developer) )?(user (assistant (tool )+)*assistant )+")


# Keys with which data sets say whether a reply is trained: 0 or false, and 1 or true.
MARKS = ("weight", "train", "trainable", "training", "loss_mask", "loss")
# The key of a reply that is not trained.
UNTRAINED = "untrained"
# The column of plain texts. In the data set it may have another name.
TEXT = "text"
# Keys of a reply with the thoughts before it, and their other form, at the beginning of its text.
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_TAGS = {
    "<think>": "</think>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
IN_TEXT = re.compile(
    rf"\s*(?:{'|'.join(map(re.escape, _TAGS))})?(.*?)(?:{'|'.join(map(re.escape, _TAGS.values()))})\s*",
    re.DOTALL,
)


def to_conversations(data: "Data", rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Turn a batch of raw rows into a batch of conversations, both by column."""
    if data.messages:
        turns = [_turns(data, row) for row in rows[data.messages]]
        parts: dict[str, list[Any]] = {
            "prompt": [row[:-1] for row in turns],
            "completion": [row[-1:] for row in turns],
        }
        if data.tools:
            parts["tools"] = [_tools(data, row) for row in rows[data.tools]]
        return parts
    if data.text:
        return {TEXT: rows[data.text]}
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


def _turns(data: "Data", messages: Any) -> list[dict[str, Any]]:
    """The messages without values that are None. Raises ValueError when they are not a conversation."""
    try:
        turns = [_turn(message) for message in messages]
        roles = "".join(f"{turn['role']} " for turn in turns)
    except (KeyError, TypeError, AttributeError):
        turns, roles = [], ""
    if not ROLES.fullmatch(roles):
        raise ValueError(
            f"{data.messages} must be a list of role and content, a text or parts of type text: system or "
            "developer, if any, then user and assistant in turns to a last reply, with tool behind a reply "
            f"that calls one, not {roles or 'this'}"
        )
    return turns


def _turn(message: Any) -> dict[str, Any]:
    """A message with all its keys. Raises KeyError or TypeError for one without a text and without calls."""
    turn = {name: _without_none(value) for name, value in message.items() if value is not None}
    if turn.get("tool_calls"):
        turn["tool_calls"] = [_call(call) for call in turn["tool_calls"]]
    if turn["role"] == "assistant":
        turn = _marked(turn)
    if turn.get("tool_calls") or turn["role"] == "tool":
        turn.setdefault("content", "")
    elif message["content"] is None:
        turn["content"] = ""
    text_of(turn)
    return turn


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """A call of a tool whose arguments are an object. In OpenAI's form they are the JSON text of one."""
    if isinstance(function := call.get("function"), dict):
        return call | {"function": _call(function)}
    if isinstance(call.get("arguments"), str):
        try:
            arguments = json.loads(call["arguments"] or "{}")
        except ValueError:
            return call
        return call | {"arguments": arguments} if isinstance(arguments, dict) else call
    return call


def _marked(turn: dict[str, Any]) -> dict[str, Any]:
    """A reply without the keys that say whether it is trained. One that is not has UNTRAINED.

    Raises ValueError for a weight between none and all.
    """
    marks = {name: turn[name] for name in MARKS if name in turn}
    for name, mark in marks.items():
        if mark not in (0, 1):
            raise ValueError(f"a reply has {name} {mark!r}, and a run knows 0, not trained, and 1")
    turn = {name: value for name, value in turn.items() if name not in marks}
    return turn if all(marks.values()) else turn | {UNTRAINED: True}


def text_of(turn: Mapping[str, Any]) -> str:
    """The text of a message. Raises KeyError or TypeError when its content is not made of texts."""
    content = turn["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if any(part["type"] != "text" or not isinstance(part["text"], str) for part in parts):
        raise TypeError("not a text")
    return "".join(part["text"] for part in parts)


def thoughts_of(turn: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The thoughts of a reply, empty if it has none, and the reply without them."""
    rest = {name: value for name, value in turn.items() if name not in THOUGHTS}
    thoughts = next((turn[name] for name in THOUGHTS if str(turn.get(name) or "").strip()), "")
    text = text_of(turn)
    if not thoughts and (written := IN_TEXT.match(text)):
        return written[1].strip(), rest | {"content": text[written.end() :]}
    return thoughts, rest


def have_thoughts(data: "Data", texts: Mapping[str, list[Any]]) -> bool:
    """Whether a trained reply of a batch of raw rows, in columns, has thoughts."""
    if not data.messages:
        return any(IN_TEXT.match(str(reply)) for reply in texts[data.reply])
    return any(
        thoughts_of(turn)[0]
        for messages in texts[data.messages]
        for turn in _turns(data, messages)
        if turn["role"] == "assistant" and not turn.get(UNTRAINED)
    )


def _tools(data: "Data", tools: Any) -> list[Any] | None:
    """The tools that a conversation may call. Raises ValueError when they are no list."""
    if isinstance(tools, str) and tools.strip():
        try:
            tools = json.loads(tools)
        except ValueError as error:
            raise ValueError(f"{data.tools} is no JSON: {error}") from error
    if tools and not isinstance(tools, list):
        raise ValueError(f"{data.tools} must be a list of tools or the JSON of one, not {tools!r}")
    return _without_none(tools) if tools else None


def _without_none(value: Any) -> Any:
    """A value without its parts that are None.

    A table has the same keys in all its rows. Where one row has a key, those without it have None.
    """
    if isinstance(value, Mapping):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value


def is_complete(data: "Data", row: Mapping[str, Any]) -> bool:
    """Whether no text of a row is empty. An empty one would appear in the prompt as the word None.

    Args:
        row: Only the columns that hold text.

    Raises:
        ValueError: If the run cannot use the row.
    """
    return not any(_is_gap(text) for text in _texts(data, row))


def _is_gap(text: Any) -> bool:
    """Whether a value is empty. NaN is the gap of a column of numbers, and differs from itself."""
    return text is None or text != text or not str(text).strip()


def _texts(data: "Data", row: Mapping[str, Any]) -> list[Any]:
    if data.messages:
        messages = row[data.messages]
        if messages is None:
            return [None]
        if data.tools:
            _tools(data, row[data.tools])
        turns = _turns(data, messages)
        if all(turn.get(UNTRAINED) for turn in turns if turn["role"] == "assistant"):
            return [None]
        return [text_of(turn) for turn in turns if turn["role"] != "tool" and not turn.get("tool_calls")]
    written = data.text or data.reply
    if not isinstance(row[written], str | None) and not _is_gap(row[written]):
        raise ValueError(f"{written} must be a text, not {row[written]!r}")
    return list(row.values())


def conversation(data: "Data", row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The turns of one row, without its picture. Empty for a row that is left out, since a text is empty.

    A plain text is one turn, whose role is TEXT.

    Raises:
        ValueError: If a run ends at the row.
    """
    text_row = {column: row[column] for column in dict.fromkeys(data.texts)}
    if not is_complete(data, text_row):
        return []
    if data.text:
        return [{"role": TEXT, "content": row[data.text]}]
    batch = {column: [value] for column, value in text_row.items()}
    turns = to_conversations(data.model_copy(update={"image": None}), batch)
    return [*turns["prompt"][0], *turns["completion"][0]]
