"""Held-out replies with the probabilities that the published model gives them, as check.json of a run.

`python -m operations verify` compares them with those of a server. The tokens of a reply are given, not
generated, so rounding cannot lead to another text.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from conversations import day
from conversations.chat_template import ChatTemplate, Conversation
from conversations.texts import token_lists
from conversations.turns import TEXT, UNTRAINED
from finetune.model.loading import compute_dtype
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.errors import one_line

if TYPE_CHECKING:
    from datasets import Dataset

CHECK = "check.json"
ROWS = 3
# Tokens of a prompt and its reply.
LONGEST = 512
# Rows among which such short ones are looked for.
TRIED = 100


@dataclass(frozen=True, kw_only=True)
class CheckRow:
    """A reply, with what the server is asked for it.

    Args:
        messages: The conversation before the reply. A plain text has none.
        tools: The tools that it may call.
        prompt: The tokens before the reply.
        reply: The tokens of the reply.
        logprobs: The logarithm of the probability of each of them.
    """

    messages: Conversation
    tools: list[Any] | None
    prompt: list[int]
    reply: list[int]
    logprobs: list[float] = field(default_factory=list)


class Check:
    """The rows of a run's check, whose probabilities are computed once and then kept.

    A problem of the check never ends a run: it is printed, and the run has no check.

    Args:
        rows: Conversations, held-out ones if the recipe has some. Pictures are left out of them.
        processor: The model's processor, or its tokenizer, whose chat template asks as the run has trained.
    """

    def __init__(self, recipe: Recipe, run: RunFolder, rows: "Dataset", processor: Any) -> None:
        self._recipe, self._run, self._problem = recipe, run, ""
        self._rows: list[CheckRow] = []
        self._has_date = False
        try:
            tokenizer = getattr(processor, "tokenizer", processor)
            self._has_date = day.is_written(tokenizer)
            find = _texts if TEXT in rows[0] else _replies
            self._rows = list(islice(find(rows, tokenizer), ROWS))
        except Exception as error:
            self._problem = one_line(error)

    def ask(self, model: Any) -> None:
        """Compute the probabilities. Call it on every rank if the model is sharded."""
        try:
            self._rows = [_asked(model, self._recipe, row) for row in self._rows]
        except Exception as error:
            self._problem = one_line(error)

    def keep(self) -> None:
        """Write the rows, or print why there are none."""
        whole = [asdict(row) for row in self._rows if row.logprobs]
        if not whole or self._problem:
            why = self._problem or ("its model is no longer in memory" if self._rows else "no row is short")
            print(f"no {CHECK} for `operations verify`: {why}", flush=True)
            return
        content = {"base": self._recipe.model.name, "has_date": self._has_date, "rows": whole}
        self._run.folder.write_text(CHECK, json.dumps(content))


def _texts(rows: "Dataset", tokenizer: Any) -> Iterator[CheckRow]:
    """The beginnings of plain texts, whose prompt is the first token alone."""
    for number in range(min(TRIED, len(rows))):
        (tokens,) = token_lists(rows.select([number]), tokenizer)
        if len(tokens) > 1:
            yield CheckRow(messages=[], tools=None, prompt=tokens[:1], reply=tokens[1:LONGEST])


def _replies(rows: "Dataset", tokenizer: Any) -> Iterator[CheckRow]:
    """The last replies of the first rows that are short enough."""
    template = ChatTemplate(tokenizer)
    for number in range(min(TRIED, len(rows))):
        conversation = rows[number]
        tools = conversation.get("tools")
        messages = [*conversation["prompt"], *conversation["completion"]]
        row = template.row(messages, tools)
        end = max(at for at, is_trained in enumerate(row.trained) if is_trained) + 1
        start = end - next((at for at, is_it in enumerate(reversed(row.trained[:end])) if not is_it), end)
        if start and end <= LONGEST and not messages[-1].get(UNTRAINED):
            before = [{name: turn[name] for name in turn if name != UNTRAINED} for turn in messages[:-1]]
            yield CheckRow(
                messages=before, tools=tools, prompt=row.tokens[:start], reply=row.tokens[start:end]
            )


def _asked(model: Any, recipe: Recipe, row: CheckRow) -> CheckRow:
    """The row with the probabilities that the model gives to its reply."""
    import torch

    from finetune.model.attention import attention_of_rows

    tokens = torch.tensor([[*row.prompt, *row.reply]], device=model.device)
    half = compute_dtype(recipe.model) == torch.bfloat16
    model.eval()
    with torch.no_grad(), attention_of_rows(model), torch.autocast(model.device.type, torch.bfloat16, half):
        logits = model(input_ids=tokens).logits[0, len(row.prompt) - 1 : -1]
    logprobs = logits.float().log_softmax(-1).gather(1, tokens[0, len(row.prompt) :, None])[:, 0]
    if not bool(logprobs.isfinite().all()):
        raise ValueError("the model gives a reply no probability")
    return CheckRow(**{**asdict(row), "logprobs": [round(value, 5) for value in logprobs.tolist()]})
