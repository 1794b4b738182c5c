"""Conversations in the forms that people have, as turns with a role and a content."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from conversations.columns import RowError, is_gap
from conversations.pictures import IMAGE, picture_of

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
_IN_TEXT = re.compile(
    rf"\s*(?:{'|'.join(map(re.escape, _TAGS))})?(.*?)(?:{'|'.join(map(re.escape, _TAGS.values()))})\s*",
    re.DOTALL,
)
# Keys of a picture in the form of Gemini.
_INLINE = frozenset(("inline_data", "inlineData"))
NO_CONVERSATION = "they are no conversations that end in a reply"
Turn = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TurnForm:
    """The keys of a turn in one form, and its names for roles."""

    name: str
    role: str
    content: str


TURN_FORMS = (
    TurnForm(name="OpenAI", role="role", content="content"),
    TurnForm(name="ShareGPT", role="from", content="value"),
    TurnForm(name="Gemini", role="role", content="parts"),
)
# Other names of the roles.
ROLE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("human", "prompter"), "user"),
        **dict.fromkeys(("gpt", "model", "bot", "ai", "chatgpt", "bard", "bing"), "assistant"),
        **dict.fromkeys(("function", "observation", "function_response", "tool_response"), "tool"),
    }
)


def turns_of(column: str, messages: Any, pictures: list[Any] | None) -> list[Turn]:
    """The turns of a conversation, without values that are None.

    Args:
        column: Its name.
        messages: A list of turns in one of the TURN_FORMS, or the JSON text of one.
        pictures: Those of the row's column with pictures, for the places that the turns leave. They are taken
            out of the list, and those within the turns are added. None means that the run has no pictures.

    Raises:
        RowError: If they are no conversation that ends in a reply.
    """
    if isinstance(messages, str):
        messages = _parsed(column, messages)
    if not isinstance(messages, list) or not messages or not all(isinstance(turn, dict) for turn in messages):
        raise _unknown(column, messages)
    places = _Places(pictures)
    turns = [_turn(column, message, places) for message in messages]
    places.fill(turns)
    roles = "".join(f"{turn['role']} " for turn in turns)
    if not ROLES.fullmatch(roles):
        raise RowError(
            NO_CONVERSATION,
            f"{column} must be system or developer, if any, then user and assistant in turns to a last "
            f"reply, with tool behind a reply that calls one, not {roles.strip()}",
        )
    return turns


def _parsed(column: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _unknown(column, text) from None


def _unknown(column: str, value: Any) -> RowError:
    """What stands where a list of turns in a known form is wanted."""
    first = value[0] if isinstance(value, list) and value else value
    what = f"a turn with {', '.join(map(str, first))}" if isinstance(first, dict) else f"{first!r}"[:80]
    known = ", ".join(f"{form.role} and {form.content} ({form.name})" for form in TURN_FORMS)
    return RowError(
        NO_CONVERSATION, f"{column} must be a list of turns, each with {known}, not this: {what or 'nothing'}"
    )


class _Places:
    """The pictures of a conversation and the places where they stand."""

    def __init__(self, pictures: list[Any] | None):
        self._all, self._found = pictures, list[Any]()
        self._from_column = [*(pictures or ())]

    def part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a content for a picture. An empty place takes the next one of the column."""
        if self._all is None:
            raise RowError(
                "they have pictures",
                "a message has a picture: write data.image, the column with the "
                "pictures, or the column of messages if they are in it",
            )
        picture = picture_of(part)
        if picture is None:
            if not self._from_column:
                raise RowError("pictures and their places differ", "a message has a place without a picture")
            picture = self._from_column.pop(0)
        self._found.append(picture)
        return {"type": IMAGE}

    def fill(self, turns: list[Turn]) -> None:
        """Put the pictures of the column that have no place before the first text of a user."""
        if self._all is None:
            return
        if self._from_column and (turn := next((turn for turn in turns if turn["role"] == "user"), None)):
            if self._found:
                raise RowError("pictures and their places differ", "a picture has no place in the messages")
            places = [{"type": IMAGE}] * len(self._from_column)
            turn["content"] = [*places, *_parts(turn["content"])]
            self._found = self._from_column
        self._all[:] = self._found

    def marked(self, text: str) -> Any:
        """The text, as parts if it marks places of pictures."""
        marks = text.count(MARK) if self._all is not None else 0
        if not marks or marks > len(self._from_column):
            return text
        pieces = text.split(MARK)
        parts: list[dict[str, Any]] = []
        for number, piece in enumerate(pieces):
            parts += [self.part({"type": IMAGE})] if number else []
            parts += [{"type": "text", "text": piece}] if piece.strip() else []
        return parts


MARK = "<image>"


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _turn(column: str, message: Turn, places: _Places) -> Turn:
    """A message with all its keys, those of role and content by their own names."""
    form = next((form for form in TURN_FORMS if form.role in message and form.content in message), None)
    call = message.get("function_call")
    if form is None and "role" in message and (message.get("tool_calls") or call):
        form = TURN_FORMS[0]
    if form is None or not isinstance(message[form.role], str):
        raise _unknown(column, [message])
    turn = {
        name: _without_none(value)
        for name, value in message.items()
        if value is not None and name not in (form.role, form.content, "function_call")
    }
    role = message[form.role].lower()
    turn = {"role": ROLE_NAMES.get(role, role), **turn}
    content = message.get(form.content)
    if turn["role"] == "function_call":
        # The form of LLaMA-Factory: the call is the text.
        turn, call, content = turn | {"role": "assistant"}, _parsed(column, str(content)), None
    if isinstance(call, dict):
        turn["tool_calls"] = [{"type": "function", "function": call}]
    if turn.get("tool_calls"):
        turn["tool_calls"] = [_call(call) for call in turn["tool_calls"]]
    if turn["role"] == "assistant":
        turn = _marked(turn)
    return turn | {"content": _content(column, content, places)}


def _content(column: str, content: Any, places: _Places) -> Any:
    """A text, or parts of type text and image."""
    if content is None:
        return ""
    if isinstance(content, str):
        return places.marked(content)
    if not isinstance(content, list):
        raise RowError(
            NO_CONVERSATION, f"a content of {column} must be a text or a list of parts, not {content!r}"
        )
    return [_part(column, part, places) for part in content]


def _part(column: str, part: Any, places: _Places) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict):
        kind = part.get("type", "text" if isinstance(part.get("text"), str) else None)
        if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            return {name: value for name, value in part.items() if value is not None} | {"type": "text"}
        if kind in ("image", "image_url", "input_image") or (kind is None and not _INLINE.isdisjoint(part)):
            return places.part(part)
        kind = kind or ", ".join(map(str, part))
        raise RowError(
            NO_CONVERSATION, f"{column} has a part of type {kind}, and text and pictures are known"
        )
    raise RowError(NO_CONVERSATION, f"{column} has a part that is neither text nor picture: {part!r}"[:200])


def _call(call: Any) -> Any:
    """A call of a tool whose arguments are an object. In OpenAI's form they are the JSON text of one."""
    if not isinstance(call, dict):
        return call
    if isinstance(function := call.get("function"), dict):
        return call | {"function": _call(function)}
    if isinstance(call.get("arguments"), str):
        try:
            arguments = json.loads(call["arguments"] or "{}")
        except (ValueError, RecursionError):
            return call
        return call | {"arguments": arguments} if isinstance(arguments, dict) else call
    return call


def _marked(turn: Turn) -> Turn:
    """A reply without the keys that say whether it is trained. One that is not has UNTRAINED.

    Raises RowError for a weight between none and all.
    """
    marks = {name: turn[name] for name in MARKS if name in turn}
    for name, mark in marks.items():
        if mark not in (0, 1):
            raise RowError(
                "a reply has a weight that is neither 0 nor 1",
                f"a reply has {name} {mark!r}, and a run knows 0, not trained, and 1",
            )
    turn = {name: value for name, value in turn.items() if name not in marks}
    return turn if all(marks.values()) else turn | {UNTRAINED: True}


def text_of(turn: Mapping[str, Any]) -> str:
    """The text of a message, without its pictures."""
    return "".join(part.get("text", "") for part in _parts(turn["content"]))


def thoughts_of(turn: Mapping[str, Any]) -> tuple[str, Turn]:
    """The thoughts of a reply, empty if it has none, and the reply without them."""
    rest = {name: value for name, value in turn.items() if name not in THOUGHTS}
    thoughts = next((turn[name] for name in THOUGHTS if str(turn.get(name) or "").strip()), "")
    text = text_of(turn)
    if not thoughts and (written := written_thoughts(text)):
        return written[1].strip(), rest | {"content": text[written.end() :]}
    return thoughts, rest


def written_thoughts(text: str) -> re.Match[str] | None:
    """The thoughts with which a text begins: the first group of the match, which ends with their mark."""
    # The expression alone would look for the mark once from each blank with which the text begins.
    return _IN_TEXT.match(text) if any(end in text for end in _TAGS.values()) else None


def is_said(turn: Mapping[str, Any]) -> bool:
    """Whether a turn that must say something does: a text, a picture or a call of a tool."""
    has_picture = any(part.get("type") == IMAGE for part in _parts(turn["content"]))
    return bool(turn["role"] == "tool" or turn.get("tool_calls") or has_picture or not is_gap(text_of(turn)))


def tools_of(column: str, tools: Any) -> list[Any] | None:
    """The tools that a conversation may call. Raises RowError when they are no list."""
    reason = "their tools are no list"
    if isinstance(tools, str) and tools.strip():
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError) as error:
            raise RowError(reason, f"{column} is no JSON: {error}") from error
    if tools and not isinstance(tools, list):
        raise RowError(reason, f"{column} must be a list of tools or the JSON of one, not {tools!r}")
    return _without_none(tools) if tools else None


def _without_none(value: Any) -> Any:
    """A value without its parts that are None.

    A table has the same keys in all its rows. Where one row has a key, those without it have None.
    """
    if isinstance(value, Mapping):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value
