"""The trained model answers held-out rows, and its answers are judged, since a loss says little of them."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch.distributed.fsdp import register_fsdp_forward_method
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl.data_utils import prepare_multimodal_messages

from conversations.chat_template import ChatTemplate, in_one_line
from conversations.stops import end_of_reply, stops
from conversations.turns import text_of, thoughts_of
from finetune.model.attention import attention_of_rows
from finetune.model.loading import compute_dtype, load_processor
from finetune.model.plain import greedy
from finetune.model.sharding import gathered_for_answers
from finetune.rows.data import values_of
from finetune.run import sql
from finetune.run.answer_texts import read_answers
from finetune.run.callbacks import ShowProgress
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.files import write_or_say
from shared.time_limit import TimeLimit

if TYPE_CHECKING:
    from datasets import Dataset

# Rows that are answered together.
BATCH = 16
# Answers that a finished run prints.
EXAMPLES = 3
# The units that are counted in a text. An emoji is one grapheme and often several characters.
UNITS = {"emoji": r"(?!\s)\X", "text": r"\w+"}


class Answers(TrainerCallback):
    """Has the model answer held-out rows. Each rank answers its share, and all get the figures.

    Nothing is drawn at random, so the answers do not change the training that follows.
    """

    def __init__(
        self,
        recipe: Recipe,
        rows: "Dataset",
        run: RunFolder,
        progress: ShowProgress | None,
        limit: TimeLimit,
        published: Path,
        processor: Any,
    ):
        """`processor` asks as the rows are trained, and `published` is the base model's directory."""
        self._recipe, self._run, self._progress, self._limit = recipe, run, progress, limit
        self._rows = rows.select(range(min(recipe.evaluation.rows, len(rows))))
        self._lengths = [len(str(row["completion"][-1]["content"])) for row in self._rows]
        self.before: dict[str, float] | None = None
        # The trainer's evaluation. It exists after its callbacks.
        self.evaluate: Callable[[], dict[str, float]] | None = None
        self._processor, self._template = processor, ChatTemplate(processor)
        # trl knows the parts of an answer by the published template.
        pictures, model = recipe.data.image is not None, recipe.model
        self._reader = load_processor(model.name, pictures, model.revision, model.chat_template)
        self._tokenizer = getattr(self._processor, "tokenizer", self._processor)
        # A server of the result stops there too.
        self._stops = sorted({*stops(published), end_of_reply(self._tokenizer)})

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        # After the checkpoint, so that a kill costs no training. A run that stops or ends does not wait.
        every = self._recipe.evaluation.every_steps
        if every and state.global_step % every == 0 and not control.should_training_stop:
            self.judged(others["model"], state.global_step)

    def judge_untrained(self, model: Any, step: int) -> None:
        """Set `before`, the figures of the untrained model: the run's own, or at its first step new ones.

        `eval_loss` is one of them. Call it on every rank.
        """
        if not self._recipe.evaluation.before:
            return
        is_first = PartialState().is_main_process
        (self.before,) = broadcast_object_list([self._run.before() if is_first else None])
        if not self.before and step == 0:
            loss = self._loss()
            self.before = self.judged(model, 0) | loss
            if is_first:
                self._run.keep_before(self.before)

    def at_the_end(self, model: Any, step: int) -> tuple[dict[str, float], dict[str, float] | None]:
        """Figures of the trained model's answers and of the untrained one's. Prints some answers."""
        if not self.before:
            # Another process began the run.
            self.judge_untrained(model, step)
        return self.judged(model, step, EXAMPLES), self.before

    def judged(self, model: Any, step: int, examples: int = 0) -> dict[str, float]:
        """Figures of the model's answers, of which the first decides. Call it on every rank.

        Args:
            examples: Number of answers to print.
        """
        start, own_rows = time.monotonic(), self._rows_of_this_rank()
        own_answers: list[tuple[int, dict[str, Any]]] = []
        with gathered_for_answers(model, compute_dtype(self._recipe.model)):
            for first in range(0, len(own_rows), BATCH):
                numbers = own_rows[first : first + BATCH]
                rows = self._rows.select(numbers)
                judged = map(self._judged, rows, rows.with_format(None), self._replies(model, [*rows]))
                own_answers += zip(numbers, judged, strict=True)
                self._limit.progress()
        by_row = dict(chain.from_iterable(gather_object([own_answers])))
        answers = [by_row[number] for number in sorted(by_row)]
        figures = _figures([answer["score"] for answer in answers])
        if self._progress:
            lines = (json.dumps(answer, ensure_ascii=False) for answer in answers)
            write_or_say(self._run.folder, "answers.jsonl", "".join(f"{line}\n" for line in lines))
            self._progress.show_answers(step, figures, time.monotonic() - start)
            for answer in answers[:examples]:
                print(f"  answer {in_one_line(answer['reply'])}, expected {in_one_line(answer['wanted'])}")
        return figures

    def _rows_of_this_rank(self) -> list[int]:
        """Numbers of the rows that this rank answers.

        Rows that are answered together have replies of about the same length, on each rank and on all. A
        batch goes on until its longest reply ends. The ranks answer equally many rows, because those of a
        sharded model need each other in every step. At the end some answer the last row again.
        """
        state = PartialState()
        by_length = sorted(range(len(self._rows)), key=lambda number: self._lengths[number])
        share = ceil(len(by_length) / state.num_processes)
        again = share * state.num_processes - len(by_length)
        return (by_length + by_length[-1:] * again)[state.process_index :: state.num_processes]

    def _loss(self) -> dict[str, float]:
        """The loss on the held-out rows. The state of the random generators stays."""
        if not self.evaluate:
            return {}
        with torch.random.fork_rng():
            return {"eval_loss": self.evaluate()["eval_loss"]}

    def _replies(self, model: Any, rows: list[dict[str, Any]]) -> list[str]:
        prompts = [[*row["prompt"], *row["completion"][:-1]] for row in rows]
        pictures = {}
        if self._recipe.data.image:
            pictures = {"images": [row["images"] for row in rows]}
            prompts = [*map(prepare_multimodal_messages, prompts, pictures["images"])]
        tools = [row.get("tools") for row in rows]
        texts = [*map(self._template.prompt, prompts, tools)]
        tensors = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
        inputs = self._processor(text=texts, add_special_tokens=False, **tensors, **pictures).to(model.device)
        if "generate" not in vars(model):
            register_fsdp_forward_method(model, "generate")
        # The trainer turns dropout on again in its next step.
        model.eval()
        max_new_tokens = self._recipe.evaluation.max_new_tokens
        half = self._recipe.model.precision == "bf16"
        with (
            attention_of_rows(model),
            greedy(model),
            torch.autocast(model.device.type, torch.bfloat16, half),
        ):
            tokens = model.generate(
                **inputs,
                max_new_tokens=max_new_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                eos_token_id=self._stops,
            )
        prompt_length = inputs["input_ids"].shape[1]
        return read_answers(self._reader, inputs["input_ids"], tokens[:, prompt_length:])

    def _judged(self, row: dict[str, Any], raw: dict[str, Any], reply: str) -> dict[str, Any]:
        _, answer = thoughts_of(row["completion"][-1])
        kind, wanted = self._recipe.evaluation.judge, text_of(answer)
        if kind == "sql":
            score = {sql.judge(values_of(raw)[self._recipe.data.fields["schema"]], wanted, reply): 1}
        else:
            score = compare(wanted, reply, UNITS[kind], in_order=kind == "text")
        return {"asked": _asked(row["prompt"]), "reply": reply, "wanted": wanted, "score": score}


class JudgeUntrained(TrainerCallback):
    """Has the untrained model answer before the first step. A process that is stopped meanwhile just ends.

    It stands before the callback that announces the training to the driver.
    """

    def __init__(self, answers: Answers):
        self._answers = answers

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        self._answers.judge_untrained(others["model"], state.global_step)


def compare(wanted: str, reply: str, units: str, in_order: bool = False) -> dict[str, float]:
    """How alike two texts are.

    `overlap` is the F1 score of their units, in any order. `exact` is 1 when all units are the same. With
    `in_order`, `rouge_l` is the F1 score of the units that both have in the same order, ROUGE-L.
    """
    texts = (wanted.lower().strip(), reply.lower().strip())
    # A text that has none of the units is one itself: else all such texts would be the same.
    wanted_units, reply_units = (regex.findall(units, text) or [text] for text in texts)
    both = len(wanted_units) + len(reply_units)
    shared = (Counter(wanted_units) & Counter(reply_units)).total()
    score = {"overlap": 2 * shared / both}
    if in_order:
        score["rouge_l"] = 2 * _longest_common(wanted_units, reply_units) / both
    return score | {"exact": float(wanted_units == reply_units)}


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Number of units of the longest sequence that both have, with other units between them or not."""
    lengths = [0] * (len(second) + 1)
    for unit in first:
        before = 0
        for at, other in enumerate(second, 1):
            before, lengths[at] = lengths[at], before + 1 if unit == other else max(lengths[at - 1 : at + 1])
    return lengths[-1]


def _asked(prompt: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last message before the reply, empty if it has none."""
    content = prompt[-1]["content"] if prompt else ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or () if part.get("type") == "text")


def _figures(scores: list[dict[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for score in scores:
        total.update(score)
    if "overlap" in total:
        return {name: value / len(scores) for name, value in total.items()} | {"judged": len(scores)}
    judged = total[sql.RIGHT] + total[sql.WRONG]
    kept_out = {verdict: total[verdict] for verdict in (sql.EMPTY, sql.NOT_RUN)}
    return {"execution_accuracy": total[sql.RIGHT] / max(judged, 1), "judged": judged, **kept_out}
