"""Asks a model in the form of the rows that it was trained on."""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from operations.errors import ODD_ANSWER, OperationError
from operations.serving.connection import Connection


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the rows of a training ask.

    Args:
        system: The system message, empty for none.
        prompt: The user's message with placeholders for fields, empty for the text alone.
    """

    system: str = ""
    prompt: str = ""

    @classmethod
    def read(cls, outputs: Mapping[str, str]) -> "Form":
        """The form that the stack's output `questionForm` has. Without one, the text alone.

        Raises:
            OperationError: When the output is something else.
        """
        try:
            tree = json.loads(outputs.get("questionForm", "{}"))
            return cls(system=tree.get("system") or "", prompt=tree.get("prompt") or "")
        except ODD_ANSWER:
            raise OperationError(
                "the stack's output questionForm is no form of a question; pulumi up"
            ) from None

    @property
    def _fields(self) -> list[str]:
        names = (name for _, name, _, _ in Formatter().parse(self.prompt))
        return list(dict.fromkeys(filter(None, names)))

    def text(self, text: str) -> str:
        """A question as one text, with `text` in every field of the prompt."""
        content = self.prompt.format_map(dict.fromkeys(self._fields, text)) if self._fields else text
        return f"{self.system}\n\n{content}" if self.system else content

    def messages(self, text: str, fields: Mapping[str, str]) -> list[dict[str, str]]:
        """The messages of a question.

        Args:
            text: The text of the one field that `fields` does not have.
            fields: Texts of other fields of the prompt.

        Raises:
            OperationError: When more or fewer fields are left than one.
        """
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
        content = self.prompt.format_map({**fields, **dict.fromkeys(left, text)}) if names else text
        question = [{"role": "user", "content": content}]
        return [{"role": "system", "content": self.system}, *question] if self.system else question


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


def answer(connection: Connection, model: str, messages: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The most probable answer, in the parts in which it arrives.

    Raises:
        OperationError: When the answer does not come, or ends before its end.
    """
    question = {"model": model, "messages": messages, "temperature": 0, "stream": True}
    ending = None
    try:
        for event in _events(connection.send("/v1/chat/completions", question)):
            for choice in event.get("choices") or ():
                yield _printable((choice.get("delta") or {}).get("content") or "")
                ending = choice.get("finish_reason") or ending
    except ODD_ANSWER as error:
        raise OperationError(f"the answer is not understood ({type(error).__name__})") from None
    except (HTTPError, OSError) as error:
        raise connection.broken(error) from None
    if ending is None:
        raise OperationError("the answer ended in the middle: ask again")
    if ending == "length":
        raise OperationError(
            "the answer is cut: with its question it is longer than --max-model-len; ask for less, "
            "or raise it in `vllmArguments`"
        )


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
            name, _, text = line.decode().strip().partition(": ")
            if name != "data" or text == "[DONE]":
                continue
            message = json.loads(text)
            if error := message.get("error"):
                reason = error.get("message") if isinstance(error, dict) else error
                raise OperationError(f"the server failed: {' '.join(str(reason).split())}")
            yield message


def _printable(text: str) -> str:
    """A model's text without the characters that control a terminal. Joined emoji stay joined."""
    return "".join(
        ascii(character)[1:-1]
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
        else character
        for character in text
    )
