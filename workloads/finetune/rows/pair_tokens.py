"""Turns pairs of replies into tokens: of the prompt, of the preferred reply, and of the rejected one."""

from typing import TYPE_CHECKING, Any

from conversations.chat_template import ChatTemplate, Row, check_vocabulary, in_one_line
from conversations.turns import UNTRAINED
from finetune.rows.data import tell_left_out
from shared.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

# As trl's collator calls them.
PROMPT, CHOSEN, REJECTED = "prompt_ids", "chosen_ids", "rejected_ids"
BATCH = 1000


def to_pair_tokens(
    rows: "Dataset", tokenizer: Any, max_length: int | None, vocabulary: int | None = None
) -> "Dataset":
    """The tokens of pairs, without those whose prompt and a reply have more than `max_length` tokens.

    A reply ends at the token at which the model stops. Raises InputError as `to_tokens` does.
    """
    from datasets import Dataset, Features, List, Value

    template = ChatTemplate(tokenizer)
    columns: dict[str, list[list[int]]] = {PROMPT: [], CHOSEN: [], REJECTED: []}
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        for number in range(len(batch["prompt"])):
            prompt, chosen, rejected = pair_of(template, {name: batch[name][number] for name in batch})
            for reply in (chosen, rejected):
                check_vocabulary([*prompt, *reply], tokenizer, vocabulary)
            if max_length is None or len(prompt) + max(len(chosen), len(rejected)) <= max_length:
                columns[PROMPT].append(prompt)
                columns[CHOSEN].append(chosen)
                columns[REJECTED].append(rejected)
    if not columns[PROMPT]:
        raise InputError(f"all {len(rows)} pairs are longer than training.max_length, {max_length} tokens")
    left_out = len(rows) - len(columns[PROMPT])
    tell_left_out(left_out, len(rows), f"longer than training.max_length, {max_length} tokens")
    return Dataset.from_dict(columns, features=Features(dict.fromkeys(columns, List(Value("int32")))))


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
