"""A model's chat template: the tokens of a conversation, and which of them the model writes."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import dropwhile
from typing import Any

from finetune.settings.conversations import UNTRAINED
from shared.errors import InputError, one_line

# Characters of a text that are shown.
LONGEST = 2000
# Characters of a prompt's end that are shown.
SHOWN = 40
REPEATED = re.compile(r"(<[^<>]+>)\1{3,}")
# A text that no template writes by itself.
PROBE = "probe7f3a"
TAKE_ANOTHER = "take an instruction-tuned model"

Conversation = list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """The tokens of a conversation, and for each of them whether it is trained."""

    tokens: list[int]
    trained: list[bool]


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer.

    trl has versions for training of many published templates. They mark replies, and write a turn in the same
    way when other turns follow. Where trl has none, replies are searched for in the template's text.
    """

    tokenizer: Any
    _ends: dict[int, str] = field(default_factory=dict)

    def row(self, conversation: Conversation, tools: list[Any] | None = None) -> Row:
        """The tokens of a conversation. Those that the model writes are trained, and no others.

        Raises InputError when the template refuses the conversation, or writes it in such a way that replies
        cannot be told from prompts.
        """
        untrained = [bool(conversation[place].get(UNTRAINED)) for place in _replies(conversation)]
        conversation = [self._as_taken(message) for message in conversation]
        find_replies = self._searched if self._marks is None else self._marked
        row = find_replies(conversation, tools)
        if tools or any(message.get("tool_calls") for message in conversation):
            self._check_tools(conversation, tools)
        self.end_replies(row)
        if any(untrained):
            _leave_out(row, untrained)
        if not any(row.trained):
            raise InputError(f"the model's chat template writes no reply; {TAKE_ANOTHER}")
        return row

    def prompt(self, conversation: Conversation, tools: list[Any] | None = None) -> str:
        """The text that a server gives the model to answer a conversation."""
        taken = [self._as_taken(message) for message in conversation]
        return self._applied(taken, tools, None, add_generation_prompt=True, tokenize=False)

    def difference(self, conversation: Conversation, tools: list[Any] | None = None) -> str | None:
        """A line if a server's prompt for the last reply is another than the trained one, else None."""
        row = self.row(conversation, tools)
        starts = [at for at, is_it in enumerate(row.trained) if is_it and not (at and row.trained[at - 1])]
        if not _replies(conversation) or conversation[-1].get(UNTRAINED):
            return None
        served = self.prompt(conversation[:-1], tools)
        if row.tokens[: starts[-1]] == self.tokenizer(served, add_special_tokens=False)["input_ids"]:
            return None
        trained = self.tokenizer.decode(row.tokens[: starts[-1]])
        remedy = "write the thoughts into the rows, as reasoning_content"
        if "enable_thinking" in str(self.tokenizer.chat_template):
            remedy += ", or ask the server with chat_template_kwargs {enable_thinking: false}"
        ends = [in_one_line(text[-SHOWN:]) for text in (served, trained)]
        return (
            "warning: a server asks with another prompt than the trained one. "
            f"Its prompt ends with {ends[0]}, the trained one with {ends[1]}: {remedy}"
        )

    def _check_tools(self, conversation: Conversation, tools: list[Any] | None) -> None:
        """Raises InputError when a tool, or a call of one, is not in the template's text."""
        text = self._applied(conversation, tools, self._marks, tokenize=False)
        calls = [call for message in conversation for call in message.get("tool_calls") or ()]
        for kind, entries in (("tools", tools or ()), ("calls of tools", calls)):
            for entry in entries:
                name = entry.get("function", entry).get("name")
                if name and name not in text:
                    raise InputError(
                        f"the model's chat template does not write {kind}: {name} is not in its text, and "
                        "nothing in its place would be trained; take a model whose template has tools"
                    )

    def end_replies(self, row: Row) -> None:
        """Do not train the blanks behind the token that ends a reply, at which the model stops.

        Blanks behind any other text stay: the model writes them.
        """
        for at in range(len(row.tokens), 0, -1):
            if row.trained[at - 1] and (at == len(row.tokens) or not row.trained[at]):
                last = at
                while last and row.trained[last - 1] and self._kind(row.tokens[last - 1]) == "blank":
                    last -= 1
                if last and row.trained[last - 1] and self._kind(row.tokens[last - 1]) == "special":
                    row.trained[last:at] = [False] * (at - last)

    def _kind(self, token: int) -> str:
        """Whether a token is blank, special or another text."""
        if token not in self._ends:
            is_blank = not self.tokenizer.decode([token]).strip()
            is_special = token in self.tokenizer.added_tokens_decoder
            self._ends[token] = "blank" if is_blank else "special" if is_special else "text"
        return self._ends[token]

    @cached_property
    def _marks(self) -> str | None:
        """The template that marks replies: this one, or trl's version of it for training, or None."""
        from trl.chat_template_utils import get_training_chat_template, has_generation_markers

        template = self.tokenizer.chat_template
        if not template:
            raise InputError(
                "the model has no chat template, as base models have none; borrow one with "
                f"model.chat_template, such as gemma3, or {TAKE_ANOTHER}"
            )
        if isinstance(template, dict) and "default" not in template:
            names = ", ".join(sorted(template))
            raise InputError(f"the model has several chat templates and none named default: {names}")
        if has_generation_markers(template):
            return template["default"] if isinstance(template, dict) else template
        try:
            return get_training_chat_template(self.tokenizer)
        except Exception:
            # trl has none, or the template failed while trl tried it.
            return None

    @cached_property
    def _takes_texts(self) -> bool:
        return self._shows(PROBE)

    @cached_property
    def _takes_parts(self) -> bool:
        return self._shows([{"type": "text", "text": PROBE}])

    def _shows(self, content: Any) -> bool:
        """Whether the template writes the probe, and not the Python object that holds it."""
        try:
            text = self._applied([{"role": "user", "content": content}], None, self._marks, tokenize=False)
        except InputError:
            return False
        return PROBE in text and "'text'" not in text

    def _as_taken(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message with its content in the form that the template takes: a text, or a list of parts."""
        content = message.get("content")
        message = {name: value for name, value in message.items() if name != UNTRAINED}
        if isinstance(content, list) and not self._takes_parts:
            return message | {"content": "".join(part["text"] for part in content)}
        if isinstance(content, str) and not self._takes_texts and self._takes_parts:
            return message | {"content": [{"type": "text", "text": content}]}
        return message

    def _marked(self, conversation: Conversation, tools: list[Any] | None) -> Row:
        """The row by the template's marks, without those tokens that already stand in the prompt."""
        marks = {"tokenize": True, "return_dict": True, "return_assistant_tokens_mask": True}
        marked = self._applied(conversation, tools, self._marks, **marks)
        row = Row(marked["input_ids"], [bool(mark) for mark in marked["assistant_masks"]])
        for prompt in self._prompts(conversation, tools, tokenize=True, return_dict=False):
            at = _same_beginning(prompt, row.tokens)
            while at and row.trained[at - 1]:
                at -= 1
                row.trained[at] = False
        return row

    def _searched(self, conversation: Conversation, tools: list[Any] | None) -> Row:
        """The row by the place of its replies in the template's text.

        A served model gets the tokens before a reply by themselves, so they are tokenized by themselves.
        """
        parts = [*self._parts(conversation, tools)]
        # The chat template has added <bos> already.
        tokens = self.tokenizer(parts, add_special_tokens=False)["input_ids"]
        trained = [place % 2 == 1 for place, part in enumerate(tokens) for _ in part]
        return Row([token for part in tokens for token in part], trained)

    def _parts(self, conversation: Conversation, tools: list[Any] | None) -> Iterator[str]:
        """The template's text up to each reply, and each reply with the end of its turn."""
        done = ""
        prompts = self._prompts(conversation, tools, tokenize=False)
        for place, before in zip(_replies(conversation), prompts, strict=True):
            whole = self._applied(conversation[: place + 1], tools, None, tokenize=False)
            if not (before.startswith(done) and whole.startswith(before) and whole != before):
                raise InputError(
                    "the model's chat template writes the prompt differently when a reply follows, and "
                    f"trl has no version of it for training; {TAKE_ANOTHER}"
                )
            yield before.removeprefix(done)
            yield whole.removeprefix(before)
            done = whole

    def _prompts(self, conversation: Conversation, tools: list[Any] | None, **options: Any) -> Iterator[Any]:
        """What the template writes before each reply."""
        for place in _replies(conversation):
            yield self._applied(
                conversation[:place], tools, self._marks, add_generation_prompt=True, **options
            )

    def _applied(
        self, conversation: Conversation, tools: list[Any] | None, template: str | None, **options: Any
    ) -> Any:
        try:
            return self.tokenizer.apply_chat_template(
                conversation, tools=tools or None, chat_template=template, **options
            )
        except Exception as error:  # a template is a program of the model's author
            first = one_line(Exception(conversation[0].get("content")))[:60]
            raise InputError(
                f"the model's chat template refuses the conversation that begins with {first!r}: "
                f"{one_line(error)}"
            ) from error


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
    return json.dumps(text, ensure_ascii=False)


def read_answers(processor: Any, prompts: Any, answers: Any) -> list[str]:
    """The texts of answers to prompts, both in padded tokens.

    Where trl knows the template, an answer is read without the thoughts before it.
    """
    from trl.chat_template_utils import add_response_schema, parse_response

    tokenizer = getattr(processor, "tokenizer", processor)
    try:
        add_response_schema(processor)
    except ValueError:  # trl knows of no parts in such an answer
        return tokenizer.batch_decode(answers, skip_special_tokens=True)
    padding = tokenizer.pad_token_id
    texts = []
    for prompt, answer in zip(prompts.tolist(), answers.tolist(), strict=True):
        before = [*dropwhile(lambda token: token == padding, prompt)]
        reply = [*dropwhile(lambda token: token == padding, reversed(answer))][::-1]
        texts.append(parse_response(tokenizer, reply, prefix=before)["content"])
    return texts


def _leave_out(row: Row, untrained: list[bool]) -> None:
    """Do not train those replies of a row. Raises InputError when the template joins two replies."""
    starts = [
        place
        for place, is_trained in enumerate(row.trained)
        if is_trained and (not place or not row.trained[place - 1])
    ]
    if len(starts) != len(untrained):
        raise InputError("the model's chat template joins replies, of which a row leaves one untrained")
    for start, next_start, is_left_out in zip(starts, [*starts[1:], len(row.tokens)], untrained, strict=True):
        if is_left_out:
            row.trained[start:next_start] = [False] * (next_start - start)


def _replies(conversation: Conversation) -> list[int]:
    """The places of the replies in a conversation."""
    return [place for place, message in enumerate(conversation) if message["role"] == "assistant"]


def _same_beginning(first: list[int], second: list[int]) -> int:
    """How many tokens two rows have in common at their beginning."""
    if second[: len(first)] == first:
        return len(first)
    return next(
        (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), len(second)
    )
