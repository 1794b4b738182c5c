"""Tokens of texts: of a prompt with its answer, and of plain texts in chunks.

Every token of a plain text is trained but its first.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from conversations.turns import TEXT
from shared.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 1000


@dataclass(frozen=True)
class PromptTokens:
    """Makes the tokens of prompts and their answers, and reads each text once."""

    tokenizer: Any
    _endings: dict[str, list[int]] = field(default_factory=dict)

    def tokens(self, prompt: str, answer: str) -> tuple[list[int], list[int]]:
        """The tokens of a prompt, and of the prompt with its answer behind it.

        A tokenizer cuts a text at its special tokens first. So what stands before the last one of the prompt
        has the same tokens in both. What follows it is nearly always the same text.
        """
        encoded = self.tokenizer([prompt + answer], add_special_tokens=False)
        (whole,) = encoded["input_ids"]
        at = encoded.char_to_token(0, len(prompt) - 1) if self._separators and prompt else None
        while at and whole[at] not in self._separators:
            at -= 1
        if not at:
            return self.tokenizer([prompt], add_special_tokens=False)["input_ids"][0], whole
        end = prompt[encoded.token_to_chars(0, at).start :]
        if end not in self._endings:
            self._endings[end] = self.tokenizer([end], add_special_tokens=False)["input_ids"][0]
        return whole[:at] + self._endings[end], whole

    @cached_property
    def _separators(self) -> set[int]:
        """The tokens at which the tokenizer cuts any text. Empty if it does not tell where a token stands."""
        if not self.tokenizer.is_fast:
            return set()
        added = self.tokenizer.added_tokens_decoder.items()
        return {number for number, token in added if token.special and not token.single_word}


def chunks_of(tokens: list[int], length: int) -> list[list[int]]:
    """The tokens in chunks of at most `length`. Each begins with the last token of the one before.

    A model predicts a token from those before it, and so no token is lost where a text is cut.
    """
    return [tokens[start : start + length] for start in range(0, len(tokens) - 1, length - 1)]


def token_lists(rows: "Dataset", tokenizer: Any) -> "list[list[int]]":
    """The tokens of each text, with the tokens that the tokenizer puts around a text, and one at its end.

    Raises InputError when the tokenizer has no token that ends a text.
    """
    end = tokenizer.eos_token_id
    if end is None:
        raise InputError("the tokenizer has no token that ends a text (eos_token)")
    lists = []
    for start in range(0, len(rows), BATCH):
        for tokens in tokenizer(rows[start : start + BATCH][TEXT])["input_ids"]:
            lists.append(tokens if tokens and tokens[-1] == end else [*tokens, end])
    return lists
