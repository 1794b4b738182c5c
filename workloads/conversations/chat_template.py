"""A model's chat template: the tokens of a conversation, and which of them the model writes."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from conversations.texts import PromptTokens
from conversations.thinking import CLOSES, PROBE, closing, only_thoughts, same_beginning
from conversations.turns import THOUGHTS, UNTRAINED, text_of, thoughts_of, written_thoughts
from shared.errors import InputError, one_line, visible

# Characters of a text that are shown.
LONGEST = 2000
# Characters of thoughts that are shown.
SHOWN = 40
REPEATED = re.compile(r"(<[^<>]+>)\1{3,}")
TAKE_ANOTHER = "take an instruction-tuned model"
# Where a tokenizer holds the tokens at which a server of its model stops.
STOPS = "stops_of_model"
# A question that no template writes by itself.
QUESTION = "question5c1d"

Conversation = list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """The tokens of a conversation, and for each of them whether it is trained."""

    tokens: list[int]
    trained: list[bool]


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer, or of its `processor` of pictures.

    A reply is trained behind the tokens that a server gives the model to write it. Where the template writes
    earlier turns in the same way when others follow, one row has all replies of a conversation. Otherwise it
    has several rows.
    """

    tokenizer: Any
    processor: Any = None
    _ends: dict[int, str] = field(default_factory=dict)
    _instructions: dict[str, bool] = field(default_factory=dict)

    def rows(self, conversation: Conversation, tools: list[Any] | None = None) -> list[Row]:
        """The rows of a conversation. The tokens that the model writes are trained, each in one row.

        Raises InputError when the template refuses the conversation, or does not write all of it.
        """
        rows: list[Row] = []
        for place in _replies(conversation):
            row = self._reply(conversation[: place + 1], tools)
            if rows and row.tokens[: len(rows[-1].tokens)] == rows[-1].tokens:
                before = rows.pop()
                row.trained[: len(before.trained)] = before.trained
            rows.append(row)
        return [row for row in rows if any(row.trained)]

    def row(self, conversation: Conversation, tools: list[Any] | None = None) -> Row:
        """The row with the last reply of a conversation. Raises InputError as `rows` does."""
        return self.rows(conversation, tools)[-1]

    def prompt(self, conversation: Conversation, tools: list[Any] | None = None) -> str:
        """The text that a server gives the model to answer a conversation."""
        taken = [self._as_taken(message) for message in conversation]
        return self._applied(taken, tools, add_generation_prompt=True, tokenize=False)

    def texts(self, conversation: Conversation) -> tuple[str, str]:
        """The texts of the prompt for the last reply, and of the reply with the end of its turn."""
        prompt = self.prompt(conversation[:-1])
        answer = self._answer(conversation, None, prompt)
        return prompt, answer + self.tokenizer.decode(self._next_turn(conversation[-1]))

    def _reply(self, conversation: Conversation, tools: list[Any] | None) -> Row:
        """The row of the last reply alone."""
        prompt = self.prompt(conversation[:-1], tools)
        answer = self._answer(conversation, tools, prompt)
        # The chat template has added <bos> already.
        asked, whole = self._texts.tokens(prompt, answer)
        # Where a token would reach across the end of the prompt, the model continues the prompt's own tokens.
        if whole[: len(asked)] != asked:
            whole = asked + self.tokenizer(answer, add_special_tokens=False)["input_ids"]
        stop = self._stop(whole, len(asked), len(whole))
        if not stop:
            whole = whole + self._next_turn(conversation[-1])
        elif any(self._kind(token) == "special" for token in whole[stop:]):
            # Another turn would not follow it.
            whole = whole[:stop]
        row = Row(whole, [False] * len(asked) + [True] * (len(whole) - len(asked)))
        self.end_replies(row)
        if conversation[-1].get(UNTRAINED):
            row.trained[len(asked) :] = [False] * (len(whole) - len(asked))
        elif all(self._kind(token) != "text" for token in whole[len(asked) :]):
            raise InputError(f"the model's chat template writes nothing of a reply; {TAKE_ANOTHER}")
        return row

    def _answer(self, conversation: Conversation, tools: list[Any] | None, prompt: str) -> str:
        """The text of the last reply behind the prompt for it, with the end of its turn."""
        *before, reply = [self._as_taken(message) for message in conversation]
        thoughts, _ = thoughts_of(conversation[-1])
        answer = self._behind(prompt, before, reply, tools, thoughts)
        if answer is None:
            # Mistral's and others write the last question otherwise when a reply follows: without the system
            # message. What follows the question is the same.
            asked = [*before[:-1], self._as_taken(conversation[-2] | {"content": QUESTION})]
            own = self._applied(asked, tools, add_generation_prompt=True, tokenize=False)
            answer = self._behind(own, asked, reply, tools, thoughts, mark=QUESTION)
        if answer is None:
            raise InputError(
                "the model's chat template writes the prompt differently when a reply follows; "
                f"{TAKE_ANOTHER}"
            )
        written = written_thoughts(text_of(conversation[-1]))
        if written and thoughts not in answer and not closing(prompt):
            # The template leaves out thoughts also of the last reply, and the model writes them.
            answer = written[0].lstrip() + answer.lstrip()
        if not conversation[-1].get(UNTRAINED):
            self._check_thoughts(thoughts, answer)
        self._check_instruction(conversation[0]["role"])
        _check_names("tools", tools or (), prompt)
        _check_names("calls of tools", conversation[-1].get("tool_calls") or (), answer)
        return answer

    def _behind(
        self,
        prompt: str,
        before: Conversation,
        reply: dict[str, Any],
        tools: list[Any] | None,
        thoughts: str,
        mark: str = "",
    ) -> str | None:
        """The text of a reply behind the prompt for it, None if the template writes the two apart.

        With a `mark`, only what follows its last place in the texts is looked at.
        """
        whole = self._applied([*before, reply], tools, tokenize=False)
        if not (mark in prompt and mark in whole):
            return None
        prompt, whole = _after(mark, prompt), _after(mark, whole)
        if whole.startswith(prompt) and whole != prompt:
            return whole.removeprefix(prompt)
        # What a prompt and the same conversation with a reply begin with: the thoughts are not in it.
        replies = [self._probe("assistant", text) for text in (PROBE, PROBE[::-1])]
        texts = [_after(mark, self._applied([*before, other], tools, tokenize=False)) for other in replies]
        head = prompt[: min(same_beginning(prompt, text) for text in texts)]
        if not (whole.startswith(head) and whole != head and only_thoughts(prompt.removeprefix(head))):
            return None
        answer = whole.removeprefix(head)
        if end := closing(prompt):
            own = "" if thoughts.strip() in answer else thoughts.strip()
            is_closed = CLOSES.match(answer.lstrip())
            answer = own + (answer if is_closed else end + answer.lstrip("\n"))
        return answer

    def _next_turn(self, reply: dict[str, Any]) -> list[int]:
        """The token that begins the next turn, if the template has no other that ends a reply.

        The model writes it, and a server stops there. GLM 4 is such a model.
        """
        if self._ends_replies:
            return []
        user, answer = self._probe("user"), self._probe("assistant", PROBE[::-1])
        if not reply.get("tool_calls"):
            text = self._tried([user, answer, user]).partition(PROBE[::-1])[2]
        else:
            function = {"name": PROBE, "arguments": {}}
            call = answer | {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
            text = self._tried([user, call, self._probe("tool")]).removeprefix(self._tried([user, call]))
        first = self.tokenizer(text, add_special_tokens=False)["input_ids"][:1]
        return first if first and self._kind(first[0]) == "special" else []

    @cached_property
    def _texts(self) -> PromptTokens:
        return PromptTokens(self.tokenizer)

    @cached_property
    def _ends_replies(self) -> bool:
        """Whether the template writes a token behind a reply at which a server can stop."""
        text = self._tried([self._probe("user"), self._probe("assistant")])
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return next((kind for kind in map(self._kind, reversed(tokens)) if kind != "blank"), "") == "special"

    def _probe(self, role: str, text: str = PROBE) -> dict[str, Any]:
        return self._as_taken({"role": role, "content": text})

    def _check_instruction(self, role: str) -> None:
        """Raises InputError when the template leaves out the message before the first question."""
        if role != "user" and role not in self._instructions:
            self._instructions[role] = PROBE in self._tried(
                [self._probe(role), self._probe("user", QUESTION)]
            )
        if not self._instructions.get(role, True):
            raise InputError(
                f"the model's chat template writes no {role} message, and rows have one: write it into the "
                "user's message, or take another model"
            )

    def _check_thoughts(self, thoughts: str, answer: str) -> None:
        if thoughts.strip() not in answer:
            raise InputError(
                "the model's chat template does not write the thoughts of the rows "
                f"({in_one_line(thoughts[:SHOWN])}): write them into the reply's text, as "
                "<think>THOUGHTS</think>REPLY or as the model itself does, or leave them out"
            )

    def end_replies(self, row: Row) -> None:
        """Do not train what stands behind the token that ends a reply, at which the model stops.

        If none of the model's stops ends it, its last special token does. Blanks behind any other text stay:
        the model writes them.
        """
        for at in range(len(row.tokens), 0, -1):
            if row.trained[at - 1] and (at == len(row.tokens) or not row.trained[at]):
                first = at
                while first and row.trained[first - 1]:
                    first -= 1
                last = self._stop(row.tokens, first, at) or at
                while last > first and self._kind(row.tokens[last - 1]) == "blank":
                    last -= 1
                if last > first and self._kind(row.tokens[last - 1]) == "special":
                    row.trained[last:at] = [False] * (at - last)

    def _stop(self, tokens: list[int], first: int, end: int) -> int | None:
        """The place behind the first of the model's stops that follows the text of a reply.

        Phi 3 writes more than one token there, and the model stops at the first.
        """
        place = end
        while place > first and self._kind(tokens[place - 1]) != "text":
            place -= 1
        stops = getattr(self.tokenizer, STOPS, ())
        return next((at + 1 for at in range(place, end) if tokens[at] in stops), None)

    def _kind(self, token: int) -> str:
        """Whether a token is blank, special or another text."""
        if token not in self._ends:
            is_blank = not self.tokenizer.decode([token]).strip()
            is_special = token in self.tokenizer.added_tokens_decoder
            self._ends[token] = "blank" if is_blank else "special" if is_special else "text"
        return self._ends[token]

    @cached_property
    def _takes_texts(self) -> bool:
        return self._shows(PROBE)

    @cached_property
    def _takes_parts(self) -> bool:
        return self._shows([{"type": "text", "text": PROBE}])

    def _shows(self, content: Any) -> bool:
        """Whether the template writes the probe, and not the Python object that holds it."""
        text = self._tried([{"role": "user", "content": content}])
        return PROBE in text and "'text'" not in text

    @cached_property
    def _thoughts_key(self) -> str | None:
        """The key of a reply whose thoughts the template writes."""
        content: Any = PROBE if self._takes_texts else [{"type": "text", "text": PROBE}]
        user, thoughts = {"role": "user", "content": content}, PROBE[::-1]
        for key in THOUGHTS:
            if thoughts in self._tried([user, {"role": "assistant", "content": content, key: thoughts}]):
                return key
        return None

    def _tried(self, conversation: Conversation) -> str:
        """The template's text, empty if it refuses the conversation."""
        try:
            return self._applied(conversation, None, tokenize=False)
        except InputError:
            return ""

    def _as_taken(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message with its content and its thoughts in the form that the template takes."""
        message = {name: value for name, value in message.items() if name != UNTRAINED}
        if message["role"] == "assistant" and self._thoughts_key:
            thoughts, rest = thoughts_of(message)
            message = rest | {self._thoughts_key: thoughts} if thoughts else message
        content = message.get("content")
        if isinstance(content, list) and not self._takes_parts:
            return message | {"content": "".join(part["text"] for part in content)}
        if isinstance(content, str) and not self._takes_texts and self._takes_parts:
            return message | {"content": [{"type": "text", "text": content}]}
        return message

    def _applied(self, conversation: Conversation, tools: list[Any] | None, **options: Any) -> Any:
        self._check()
        try:
            owner = self.processor or self.tokenizer
            return owner.apply_chat_template(conversation, tools=tools or None, **options)
        except Exception as error:  # a template is a program of the model's author
            first = one_line(Exception(conversation[0].get("content")))[:60]
            raise InputError(
                f"the model's chat template refuses the conversation that begins with {first!r}: "
                f"{one_line(error)}"
            ) from error

    def _check(self) -> None:
        """Raises InputError when there is no template to apply."""
        template = self.tokenizer.chat_template
        if not template:
            raise InputError(
                "the model has no chat template, as base models have none; borrow one with "
                f"model.chat_template, such as gemma3, or {TAKE_ANOTHER}"
            )
        if isinstance(template, dict) and "default" not in template:
            names = ", ".join(sorted(template))
            raise InputError(f"the model has several chat templates and none named default: {names}")


def check_vocabulary(tokens: list[int], tokenizer: Any, vocabulary: int | None) -> None:
    """Raises InputError for a token that the tokenizer knows and the model does not."""
    highest = max(tokens)
    if vocabulary is not None and highest >= vocabulary:
        text = tokenizer.decode(tokens)
        raise InputError(
            f"the tokenizer writes {tokenizer.decode([highest])!r} as token {highest}, and the model knows "
            f"{vocabulary} tokens; it stands in the row {in_one_line(text[:200])}: leave it out of the rows, "
            "or take another tokenizer"
        )


def shown(row: Row, tokenizer: Any) -> list[str]:
    """A row as the model sees it, a line for each part that is not blank: a prompt, or what is trained."""
    parts: list[tuple[bool, list[int]]] = []
    for token, is_trained in zip(row.tokens, row.trained, strict=True):
        if not parts or parts[-1][0] != is_trained:
            parts.append((is_trained, []))
        parts[-1][1].append(token)
    texts = [(is_trained, tokenizer.decode(tokens)) for is_trained, tokens in parts]
    return [
        f"  {'trained' if is_trained else 'prompt '} {in_one_line(text)}"
        for is_trained, text in texts
        if text.strip()
    ]


def in_one_line(text: str) -> str:
    """A text in quotes and on one line. The middle of a long one is left out, and repetitions are counted."""
    # A picture is one token many times.
    text = REPEATED.sub(lambda match: f"{match[1]}[{len(match[0]) // len(match[1])} times]", text)
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]} [{len(text) - 2 * half} characters] {text[-half:]}"
    return visible(json.dumps(text, ensure_ascii=False))


def _after(mark: str, text: str) -> str:
    """What follows the last place of a mark in a text, or the text if there is no mark."""
    return text.rpartition(mark)[2] if mark else text


def _check_names(kind: str, entries: Iterable[Mapping[str, Any]], text: str) -> None:
    """Raises InputError when a tool, or a call of one, is not in the template's text."""
    for entry in entries:
        name = entry.get("function", entry).get("name")
        if name and name not in text:
            raise InputError(
                f"the model's chat template does not write {kind}: {name} is not in its text, and "
                "nothing in its place would be trained; take a model whose template has tools"
            )


def _replies(conversation: Conversation) -> list[int]:
    """The places of the replies in a conversation."""
    return [place for place, message in enumerate(conversation) if message["role"] == "assistant"]
