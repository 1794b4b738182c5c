"""Asks a model in the form of the rows that it was trained on."""

import json
import unicodedata
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from operations.errors import ODD_ANSWER, OperationError
from operations.serving.connection import Connection

# What a reader must know of an answer, by the server's reason for its end.
_PROBLEMS: Final[Mapping[str | None, str]] = {
    None: "the answer ended in the middle: ask again",
    "length": "the answer is cut: with its question it is longer than --max-model-len; ask for less, "
    "or raise it in `vllmArguments`",
    "abort": "the server broke the answer off: ask again",
    "content_filter": "the server's filter has cut the answer: ask for something else",
}
# Tokens of a continuation, which need not come to an end by itself.
_CONTINUATION: Final = 256
# Classes of characters that turn the direction of a line.
_TURNS: Final = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the rows of a training ask.

    Args:
        system: The system message, empty for none.
        prompt: The user's message with placeholders for fields, empty for the text alone.
        texts: Whether the rows are plain texts. Then the model continues a text, and no message is sent.
    """

    system: str = ""
    prompt: str = ""
    texts: bool = False

    @classmethod
    def read(cls, outputs: Mapping[str, str], model: str = "") -> "Form":
        """The form that the stack's output `questionForm` has. Without one, the text alone.

        Args:
            model: Name of a model of a server that has several. Its form is in the output `questionForms`.

        Raises:
            OperationError: When the output is something else.
        """
        try:
            forms = json.loads(outputs.get("questionForms", "{}"))
            tree = forms.get(model) or json.loads(outputs.get("questionForm", "{}"))
            texts = bool(tree.get("texts"))
            return cls(system=tree.get("system") or "", prompt=tree.get("prompt") or "", texts=texts)
        except ODD_ANSWER:
            raise OperationError(
                "the stack's outputs questionForm and questionForms are no form of a question; pulumi up"
            ) from None

    @property
    def _fields(self) -> list[str]:
        names = (name for _, name, _, _ in Formatter().parse(self.prompt))
        return list(dict.fromkeys(filter(None, names)))

    def text(self, text: str) -> str:
        """A question as one text, with `text` in every field of the prompt."""
        content = self.prompt.format_map(dict.fromkeys(self._fields, text)) if self._fields else text
        return f"{self.system}\n\n{content}" if self.system else content

    def as_is(self) -> "Form":
        """The form in which a text goes alone, as a message or as the beginning of a text."""
        return Form(texts=self.texts)

    def question(self, text: str, fields: Mapping[str, str]) -> str | list[dict[str, str]]:
        """The messages of a question, or the text that a model of plain texts continues.

        Args:
            text: The text of the one field that `fields` does not have.
            fields: Texts of other fields of the prompt.

        Raises:
            OperationError: When more or fewer fields are left than one.
        """
        return self._content(text, fields) if self.texts else self.messages(text, fields)

    def messages(self, text: str, fields: Mapping[str, str]) -> list[dict[str, str]]:
        """The messages of a question, the user's last. See `question` for arguments and errors."""
        question = [{"role": "user", "content": self._content(text, fields)}]
        return [{"role": "system", "content": self.system}, *question] if self.system else question

    def _content(self, text: str, fields: Mapping[str, str]) -> str:
        names = self._fields
        unknown = [name for name in fields if name not in names]
        left = [name for name in names if name not in fields]
        if unknown:
            has = f"its prompt has {', '.join(names)}" if names else "its prompt has no fields"
            raise OperationError(f"--field {unknown[0]}: the model was trained without such a field; {has}")
        if names and len(left) != 1:
            which = " ".join(f"--field {name}=TEXT" for name in left[:-1]) or "one --field less"
            raise OperationError(
                f"the model was trained on prompts with {' and '.join(names)}, and PROMPT is one of them: "
                f"give {which}; or send PROMPT as it is with --as-is"
            )
        return self.prompt.format_map({**fields, **dict.fromkeys(left, text)}) if names else text


def served_model(connection: Connection, name: str = "") -> str:
    """The model to ask: the given one, or else an adapter beside its base, or else the server's only model.

    Raises:
        OperationError: When the server has no such model, or does not tell.
    """
    try:
        models = json.loads(connection.send("/v1/models").read())["data"]
        names = [str(model["id"]) for model in models]
        adapters = [str(model["id"]) for model in models if model.get("parent")]
    except ODD_ANSWER:
        raise OperationError(
            f"{connection.url} answers, but does not list models as vLLM does; look at what runs there"
        ) from None
    except (HTTPError, OSError) as error:
        raise connection.broken(error) from None
    if name and name not in names:
        raise OperationError(f"the server has no model {name}; it has {', '.join(names)}")
    return name or (adapters or names)[0]


def answer(
    connection: Connection, model: str, question: str | Sequence[Mapping[str, str]]
) -> Generator[str, None, str]:
    """The most probable answer, in the parts in which it arrives.

    A call of a tool is a line of JSON. Thoughts are counted. An answer without a text is called empty.

    Args:
        question: Messages, or a text that is continued.

    Returns:
        The text of the answer as the model wrote it, without a word about thoughts or calls.

    Raises:
        OperationError: When the answer does not come, or ends before its end.
    """
    is_text = isinstance(question, str)
    path = "/v1/completions" if is_text else "/v1/chat/completions"
    asked = {"prompt": question, "max_tokens": _CONTINUATION} if is_text else {"messages": question}
    parts = _Parts()
    try:
        for event in _events(
            connection.send(path, {"model": model, **asked, "temperature": 0, "stream": True})
        ):
            for choice in event.get("choices") or ():
                yield _printable(parts.text_of(choice))
        yield _printable(parts.rest())
    except ODD_ANSWER as error:
        raise OperationError(f"the answer is not understood ({type(error).__name__})") from None
    except (HTTPError, OSError) as error:
        raise connection.broken(error) from None
    if is_text and parts.ending == "length":
        return parts.text
    if problem := _PROBLEMS.get(parts.ending):
        raise OperationError(problem)
    return parts.text


@dataclass(kw_only=True)
class _Parts:
    """What has arrived of an answer beside its text."""

    ending: str | None = None
    text: str = ""
    thoughts: int = 0
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    def text_of(self, choice: Mapping[str, Any]) -> str:
        """The text of a part. The first one comes with a line about the thoughts before it."""
        delta = choice.get("delta") or {}
        self.ending = choice.get("finish_reason") or self.ending
        # Newer servers call them reasoning.
        self.thoughts += len(delta.get("reasoning_content") or delta.get("reasoning") or "")
        for call in delta.get("tool_calls") or ():
            whole = self.calls.setdefault(call.get("index", len(self.calls)), {"name": "", "arguments": ""})
            for name, part in (call.get("function") or {}).items():
                whole[name] = whole.get(name, "") + (part or "")
        text = (delta.get("content") or choice.get("text") or "") + (delta.get("refusal") or "")
        before = "" if self.text or not text else self._about_thoughts()
        self.text += text
        return before + text

    def rest(self) -> str:
        """The lines behind the text: calls of tools, or that there is no text."""
        lines = [] if self.text else [self._about_thoughts().strip()]
        for _, call in sorted(self.calls.items()):
            lines.append(json.dumps({"name": call["name"], "arguments": _read(call["arguments"])}))
        if not self.text and not self.calls and self.ending:
            lines.append(f"(empty, finish_reason {self.ending})")
        return "\n" * bool(self.text) * bool(self.calls) + "\n".join(filter(None, lines))

    def _about_thoughts(self) -> str:
        return f"(thinks: {self.thoughts:,} characters)\n" if self.thoughts else ""


def _read(arguments: str) -> Any:
    """The arguments of a call, or their text if it is no JSON."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _events(content: BaseHTTPResponse) -> Iterator[Mapping[str, Any]]:
    """The messages of a stream of server-sent events, when they arrive.

    Raises:
        OperationError: When a message is an error.
    """
    rest = b""
    # A plain `read`, or iterating, may wait for 64 KB.
    while part := content.read1():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            name, _, text = line.decode().strip().partition(":")
            text = text.strip()
            if name != "data" or text == "[DONE]":
                continue
            message = json.loads(text)
            if error := message.get("error"):
                reason = error.get("message") if isinstance(error, dict) else error
                raise OperationError(f"the server failed: {' '.join(str(reason).split())}")
            yield message


def _printable(text: str) -> str:
    """A model's text without the characters that control a terminal or turn the direction of a line.

    Joined emoji stay joined.
    """
    return "".join(ascii(character)[1:-1] if _controls(character) else character for character in text)


def _controls(character: str) -> bool:
    category, direction = unicodedata.category(character), unicodedata.bidirectional(character)
    return (category in ("Cc", "Cs") and character not in "\n\t") or direction in _TURNS
