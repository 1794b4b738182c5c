"""The texts of a model's answers."""

from itertools import dropwhile
from typing import Any

from conversations.thinking import CLOSES


def read_answers(processor: Any, prompts: Any, answers: Any) -> list[str]:
    """The texts of answers to prompts, both in padded tokens.

    Where trl knows the template, an answer is read without the thoughts before it.
    """
    from trl.chat_template_utils import add_response_schema, parse_response

    tokenizer = getattr(processor, "tokenizer", processor)
    try:
        add_response_schema(processor)
    except ValueError:  # trl knows of no parts in such an answer
        texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
        return [_without_thoughts(text) for text in texts]
    padding = tokenizer.pad_token_id
    texts = []
    for prompt, answer in zip(prompts.tolist(), answers.tolist(), strict=True):
        before = [*dropwhile(lambda token: token == padding, prompt)]
        reply = [*dropwhile(lambda token: token == padding, reversed(answer))][::-1]
        texts.append(parse_response(tokenizer, reply, prefix=before)["content"])
    return [_without_thoughts(text) for text in texts]


def _without_thoughts(answer: str) -> str:
    *thoughts, text = CLOSES.split(answer)
    return text.lstrip() if thoughts else text
