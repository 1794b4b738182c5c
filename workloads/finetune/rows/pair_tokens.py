"""Turns pairs of replies into tokens: of the prompt, of the preferred reply, and of the rejected one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow

from conversations.chat_template import ChatTemplate, Row, check_vocabulary, in_one_line
from conversations.turns import UNTRAINED
from finetune.rows.cores import in_batches
from finetune.rows.token_file import Layout, digest, fitting, kept, lengths
from finetune.storage.folder import Folder
from shared.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

# As trl's collator calls them.
PROMPT, CHOSEN, REJECTED = "prompt_ids", "chosen_ids", "rejected_ids"


def to_pair_tokens(
    rows: "Dataset",
    tokenizer: Any,
    max_length: int | None,
    vocabulary: int | None = None,
    beside: Folder | None = None,
) -> "Dataset":
    """The tokens of pairs, without those whose prompt and a reply have more than `max_length` tokens.

    A reply ends at the token at which the model stops. They are made and kept, and InputError is raised, as
    `to_tokens` does.
    """
    import numpy

    maker = _Maker(rows, tokenizer, ChatTemplate(tokenizer), vocabulary)
    name = digest(rows, tokenizer, vocabulary)
    tokens = kept(name, PAIRS, lambda: in_batches(maker.batch, len(rows)), beside, vocabulary)
    if not max_length:
        return tokens
    prompts, chosen, rejected = (lengths(tokens, column) for column in PAIRS.columns)
    return fitting(tokens, prompts + numpy.maximum(chosen, rejected), max_length)


@dataclass(frozen=True)
class _Maker:
    """Makes the tokens of pairs."""

    rows: "Dataset"
    tokenizer: Any
    template: ChatTemplate
    vocabulary: int | None

    def batch(self, numbers: range) -> pyarrow.RecordBatch:
        columns: tuple[list[list[int]], ...] = ([], [], [])
        batch = self.rows[numbers.start : numbers.stop]
        for at in range(len(numbers)):
            prompt, *replies = pair_of(self.template, {name: batch[name][at] for name in batch})
            for reply in replies:
                check_vocabulary([*prompt, *reply], self.tokenizer, self.vocabulary)
            for column, tokens in zip(columns, (prompt, *replies), strict=True):
                column.append(tokens)
        return PAIRS.batch(*columns)


def pair_of(template: ChatTemplate, row: dict[str, Any]) -> tuple[list[int], list[int], list[int]]:
    """The tokens of a row's prompt, and of both replies behind it."""
    turns = [turn | {UNTRAINED: True} if turn["role"] == "assistant" else turn for turn in row["prompt"]]
    chosen, rejected = (
        _last_reply(template.row([*turns, *row[name]], row.get("tools")))
        for name in ("completion", "rejected")
    )
    if chosen[0] != rejected[0]:
        raise InputError("the model's chat template writes two prompts for two replies; take another model")
    return chosen[0], chosen[1], rejected[1]


def rejected_line(rows: "Dataset") -> str:
    """A line for people: the reply that the first row is to avoid."""
    return f"and it is to avoid: {in_one_line(str(rows[0]['rejected'][0]['content']))}"


def _last_reply(row: Row) -> tuple[list[int], list[int]]:
    first = row.trained.index(True)
    # What the template writes behind the token that ends a reply is left out.
    end = len(row.trained) - row.trained[::-1].index(True)
    return row.tokens[:first], row.tokens[first:end]


def _check_pairs(batch: pyarrow.RecordBatch) -> None:
    for replies in (batch.column(CHOSEN), batch.column(REJECTED)):
        if not replies.value_lengths().to_numpy().all():
            raise ValueError("it has pairs without a reply")


PAIRS = Layout((PROMPT, CHOSEN, REJECTED), _check_pairs, known=(PROMPT, CHOSEN, REJECTED))
