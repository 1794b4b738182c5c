"""Turns conversations of text into tokens, and marks which of them are trained."""

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
    """`input_ids` and `labels` of conversations; rows of more than `max_length` tokens are left out.

    A truncated row would teach the model to stop in the middle of a sentence. Raises InputError when no row
    is left, or when the model's chat template does not keep prompt and reply apart.
    """
    from datasets import Dataset, Features, List, Value

    columns: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    for start in range(0, len(rows), BATCH):
        for prompt, reply in _prompts_and_replies(rows[start : start + BATCH], tokenizer):
            if max_length is None or len(prompt) + len(reply) <= max_length:
                columns["input_ids"].append([*prompt, *reply])
                columns["labels"].append([NOT_TRAINED] * len(prompt) + reply)
    if not columns["input_ids"]:
        raise InputError(f"all {len(rows)} rows are longer than training.max_length, {max_length} tokens")
    left_out = len(rows) - len(columns["labels"])
    tell_left_out(left_out, len(rows), f"longer than training.max_length, {max_length} tokens")
    return Dataset.from_dict(columns, features=Features(dict.fromkeys(columns, List(Value("int32")))))


def _prompts_and_replies(
    batch: dict[str, list[Any]], tokenizer: Any
) -> Iterator[tuple[list[int], list[int]]]:
    """Prompt and reply of each row, tokenised separately, because the served model sees the prompt alone."""
    prompts, replies = [], []
    for prompt, completion in zip(batch["prompt"], batch["completion"], strict=True):
        before = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template([*prompt, *completion], tokenize=False)
        if not whole.startswith(before) or whole == before:
            raise InputError(
                "the model's chat template writes the prompt differently when a reply follows; "
                "take an instruction-tuned model"
            )
        prompts.append(before)
        replies.append(whole.removeprefix(before))
    # The chat template has added <bos> already.
    return zip(
        tokenizer(prompts, add_special_tokens=False)["input_ids"],
        tokenizer(replies, add_special_tokens=False)["input_ids"],
        strict=True,
    )
