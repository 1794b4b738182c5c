"""Plain texts as chunks of tokens. Every token of a text is trained but its first."""

from typing import TYPE_CHECKING, Any

from finetune.forms.turns import TEXT
from shared.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 1000


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
