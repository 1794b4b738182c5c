"""Turns conversations of text into tokens, and marks the tokens that are trained."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ending.errors import InputError
from finetune.data import tell_left_out

if TYPE_CHECKING:
    from datasets import Dataset

# The label that PyTorch's cross entropy ignores.
NOT_TRAINED = -100
BATCH = 1000


def to_tokens(rows: "Dataset", tokenizer: Any, max_length: int | None) -> "Dataset":
    """`input_ids` and `labels` of conversations, without the rows of more than `max_length` tokens.

    A truncated row would teach the model to stop in the middle of a sentence. Raises InputError when no row
    is left, or when the model's chat template does not keep prompt and reply apart.
    """
    from datasets import Dataset, Features, List, Value

    columns: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    for start in range(0, len(rows), BATCH):
        for parts in _prompts_and_replies(rows[start : start + BATCH], tokenizer):
            tokens = [token for part in parts for token in part]
            if max_length is None or len(tokens) <= max_length:
                columns["input_ids"].append(tokens)
                columns["labels"].append(_labels(parts))
    if not columns["input_ids"]:
        raise InputError(f"all {len(rows)} rows are longer than training.max_length, {max_length} tokens")
    left_out = len(rows) - len(columns["labels"])
    tell_left_out(left_out, len(rows), f"longer than training.max_length, {max_length} tokens")
    return Dataset.from_dict(columns, features=Features(dict.fromkeys(columns, List(Value("int32")))))


def _labels(parts: list[list[int]]) -> list[int]:
    """The labels of a row whose parts are, by turns, text before a reply, and the reply."""
    labels = []
    for at, part in enumerate(parts):
        is_reply = at % 2 == 1
        labels += part if is_reply else [NOT_TRAINED] * len(part)
    return labels


def _prompts_and_replies(batch: dict[str, list[Any]], tokenizer: Any) -> Iterator[list[list[int]]]:
    """The tokens of each row, by turns those before a reply and those of the reply.

    A served model also gets the tokens before a reply by themselves, so they are tokenized by themselves.
    """
    rows = [
        [*_texts([*prompt, *completion], tokenizer)]
        for prompt, completion in zip(batch["prompt"], batch["completion"], strict=True)
    ]
    # The chat template has added <bos> already.
    tokens = iter(tokenizer([text for row in rows for text in row], add_special_tokens=False)["input_ids"])
    for row in rows:
        yield [next(tokens) for _ in row]


def _texts(conversation: list[dict[str, str]], tokenizer: Any) -> Iterator[str]:
    """The chat template's text up to each reply, and each reply with the end of its turn."""
    done = ""
    for place, message in enumerate(conversation):
        if message["role"] == "assistant":
            before = tokenizer.apply_chat_template(
                conversation[:place], tokenize=False, add_generation_prompt=True
            )
            whole = tokenizer.apply_chat_template(conversation[: place + 1], tokenize=False)
            if not (before.startswith(done) and whole.startswith(before) and whole != before):
                raise InputError(
                    "the model's chat template writes the prompt differently when a reply follows; "
                    "take an instruction-tuned model"
                )
            yield before.removeprefix(done)
            yield whole.removeprefix(before)
            done = whole
