"""Answers of the trained model to held-out rows, judged: what a loss does not say."""

import json
import time
from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, Any

import regex
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from torch.distributed.fsdp import register_fsdp_forward_method
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl.data_utils import prepare_multimodal_messages

from ending.files import write_or_say
from finetune import sql
from finetune.callbacks import ShowProgress
from finetune.checkpoint import RunFolder
from finetune.model import load_processor
from finetune.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset

# Rows that are answered together.
BATCH = 16
# What is counted in a text: an emoji is one grapheme and often several characters.
UNITS = {"emoji": r"(?!\s)\X", "text": r"\w+"}


class Answers(TrainerCallback):
    """Has the model answer held-out rows: each rank its share, and all get the figures.

    Nothing is drawn at random, so the training goes on as it would have without.
    """

    def __init__(self, recipe: Recipe, rows: "Dataset", run: RunFolder, progress: ShowProgress | None):
        self._recipe, self._run, self._progress = recipe, run, progress
        self._rows = rows.select(range(min(recipe.evaluation.rows, len(rows))))
        pictures = recipe.data.image is not None
        self._processor = load_processor(recipe.model.name, pictures, recipe.model.revision)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        # After the checkpoint, so a kill costs no training; not when a stop is asked for, or at the end.
        every = self._recipe.evaluation.every_steps
        if every and state.global_step % every == 0 and not control.should_training_stop:
            self.judged(others["model"], state.global_step)

    def judged(self, model: Any, step: int) -> dict[str, float]:
        """Figures of the model's answers, the one that decides first; call it on every rank."""
        start, state, count = time.monotonic(), PartialState(), len(self._rows)
        share = ceil(count / state.num_processes)
        # Equally many for all, since the ranks of a sharded model need each other in every step.
        mine = [min(share * state.process_index + at, count - 1) for at in range(share)]
        answers: list[dict[str, Any]] = []
        for first in range(0, share, BATCH):
            rows = self._rows.select(mine[first : first + BATCH])
            answers += map(self._judged, rows, rows.with_format(None), self._replies(model, [*rows]))
        answers = [answer for part in gather_object([answers]) for answer in part][:count]
        figures = _figures([answer["score"] for answer in answers])
        if self._progress:
            lines = (json.dumps(answer, ensure_ascii=False) for answer in answers)
            write_or_say(self._run.folder, "answers.jsonl", "".join(f"{line}\n" for line in lines))
            self._progress.show_answers(step, figures, time.monotonic() - start)
        return figures

    def _replies(self, model: Any, rows: list[dict[str, Any]]) -> list[str]:
        prompts, pictures = [[*row["prompt"], *row["completion"][:-1]] for row in rows], {}
        if self._recipe.data.image:
            pictures = {"images": [row["images"] for row in rows]}
            prompts = [*map(prepare_multimodal_messages, prompts, pictures["images"])]
        texts = self._processor.apply_chat_template(prompts, tokenize=False, add_generation_prompt=True)
        tensors = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
        inputs = self._processor(text=texts, add_special_tokens=False, **tensors, **pictures).to(model.device)
        if "generate" not in vars(model):
            register_fsdp_forward_method(model, "generate")
        base = model.get_base_model()
        attention = base.config._attn_implementation
        # The one for packs takes nothing else.
        base.set_attn_implementation("sdpa")
        # The trainer turns dropout on again in its next step.
        model.eval()
        most = self._recipe.evaluation.max_new_tokens
        with torch.autocast(model.device.type, torch.bfloat16, self._recipe.model.precision == "bf16"):
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=most)
        base.set_attn_implementation(attention)
        return self._processor.batch_decode(
            tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
        )

    def _judged(self, row: dict[str, Any], raw: dict[str, Any], reply: str) -> dict[str, Any]:
        kind, wanted = self._recipe.evaluation.judge, row["completion"][-1]["content"]
        if kind == "sql":
            score = {sql.judge(raw[self._recipe.data.fields["schema"]], wanted, reply): 1}
        else:
            score = compare(wanted, reply, UNITS[kind])
        return {"reply": reply, "wanted": wanted, "score": score}


def compare(wanted: str, reply: str, units: str) -> dict[str, float]:
    """How alike two texts are: the F1 score of their units, in any order, and 1 where all are the same."""
    parts, given = (regex.findall(units, text.lower()) for text in (wanted, reply))
    shared = (Counter(parts) & Counter(given)).total()
    return {"overlap": 2 * shared / max(len(parts) + len(given), 1), "exact": float(parts == given)}


def _figures(scores: list[dict[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for score in scores:
        total.update(score)
    if "overlap" in total:
        return {name: value / len(scores) for name, value in total.items()} | {"judged": len(scores)}
    judged = total[sql.RIGHT] + total[sql.WRONG]
    kept_out = {verdict: total[verdict] for verdict in (sql.EMPTY, sql.NOT_RUN)}
    return {"execution_accuracy": total[sql.RIGHT] / max(judged, 1), "judged": judged, **kept_out}
