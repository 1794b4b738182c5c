"""The figures of a run, computed without training and without its weights."""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from conversations import day
from conversations.stops import missing_stop
from finetune.model.loading import (
    as_model_allows,
    config_in_cache,
    fetch_model,
    load_processor,
    vocabulary,
)
from finetune.model.parameters import count_parameters
from finetune.rows.data import check_data, load_conversations, settle_for
from finetune.rows.pair_tokens import CHOSEN, PROMPT, REJECTED, rejected_line, to_pair_tokens
from finetune.rows.picture_check import check_pictures
from finetune.rows.prefix import split_off_prefix
from finetune.rows.tokens import NOT_TRAINED, first_row, picture_batch, to_tokens
from finetune.run.choices import settled
from finetune.settings.choice import choice_line
from finetune.settings.recipe import Recipe
from finetune.settings.sections import Training
from shared.model_files import DESCRIPTIONS

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run in figures: the rows to train on, and the tokens and sequences of one epoch.

    `tokens` counts every row in full. The first `prefix` tokens are the same in all rows. `shown` has the
    lines of the first row as the model sees it.
    """

    rows: int
    test_rows: int
    tokens: int
    reply_tokens: int
    prefix: int
    sequences: int
    steps: int
    parameters: int
    trainable: int
    training: Training
    shown: tuple[str, ...]

    def lines(self, recipe: Recipe, processes: int) -> list[str]:
        """The plan for people, a line per subject."""
        data, training, model = recipe.data, self.training, recipe.model
        prefix = f", the {self.prefix} that every row begins with once a batch" if self.prefix else ""
        packed = f" packed to {training.max_length} tokens{prefix}" if training.packing else ""
        subject, texts, kind = ("chunks", "texts ", "") if data.text else ("rows  ", "", " of replies")
        share = self.trainable / self.parameters
        at_model, at_data = (f" at {source.revision}" if source.revision else "" for source in (model, data))
        return [
            f"model      {model.name}{at_model}, {self.parameters:,} parameters, "
            f"quantization {model.quantization}",
            f"trainable  {self.trainable:,} parameters, {share:.2%}",
            f"{subject}     {self.rows:,} of {data.title}{at_data}, {self.test_rows:,} {texts}held out",
            f"tokens     {self.tokens:,}, of these {self.reply_tokens:,}{kind}, which are trained",
            f"sequences  {self.sequences:,}{packed}",
            f"steps      {self.steps:,}: epochs {training.epochs}, batch {training.batch}, "
            f"accumulation {training.accumulation_steps}, processes {processes}",
            "the first row as the model sees it:",
            *self.shown,
        ]


def print_plan(recipe: Recipe, processes: int) -> None:
    """Print the plan of a run. Writes only the download cache. Raises InputError where the run would."""
    from shared.hub import commits

    # Warnings of libraries, which the user can do nothing about.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    recipe = recipe.at(commits(recipe.sources, None))
    for line in make_plan(recipe, processes).lines(recipe, processes):
        print(line)


def make_plan(recipe: Recipe, processes: int) -> Plan:
    """Compute the plan from the run's own rows, tokens and packing, and from a model without weights."""
    from trl import pack_dataset

    names, recipe = recipe.open, as_model_allows(recipe)
    trainable, parameters = count_parameters(recipe)
    check_data(recipe.data)
    if recipe.training.trl:
        from finetune.run.training import trainer_arguments

        with tempfile.TemporaryDirectory() as workspace:
            trainer_arguments(recipe, Path(workspace))
    files = fetch_model(recipe.model, DESCRIPTIONS)
    pictures = recipe.data.image is not None
    processor = load_processor(str(files), pictures, template=recipe.model.chat_template)
    tokenizer = getattr(processor, "tokenizer", processor)
    rows, test_rows = load_conversations(recipe.data, recipe.training.rows_seed)
    about = [
        settle_for(recipe.data, rows, processor),
        missing_stop(tokenizer, files, recipe.training.result),
        day.line(tokenizer, day.today()),
    ]
    print(*filter(None, about), sep="\n", end="\n" * any(about))
    check_pictures(recipe.data, rows, processor)
    if names:
        recipe = settled(recipe, rows, processor, processes=processes)
        print(choice_line(names, recipe.training))
    training, prefix = recipe.training, list[int]()
    if pictures:
        sequences, labels = rows, [*_labels_with_pictures(rows, processor)]
    elif recipe.task == "preference":
        sequences = to_pair_tokens(
            rows, processor, training.max_length, vocabulary(config_in_cache(recipe.model))
        )
        labels = [*_labels_of_pairs(sequences)]
    else:
        length, known = training.max_length, vocabulary(config_in_cache(recipe.model))
        sequences = to_tokens(rows, processor, length, known)
        labels = sequences["labels"]
        if training.packing:
            test_tokens = to_tokens(test_rows, processor, length, known) if test_rows else None
            prefix, behind, _ = split_off_prefix(sequences, test_tokens)
            sequences = pack_dataset(behind, cast(int, training.max_length) - len(prefix))
    batches = ceil(len(sequences) / (training.batch * processes))
    return Plan(
        rows=len(labels),
        test_rows=len(test_rows or ()),
        tokens=sum(map(len, labels)),
        reply_tokens=sum(len(row) - row.count(NOT_TRAINED) for row in labels),
        prefix=len(prefix),
        sequences=len(sequences),
        steps=training.epochs * ceil(batches / training.accumulation_steps),
        parameters=parameters,
        training=training,
        trainable=trainable,
        shown=(
            *first_row(rows, processor, pictures),
            *([rejected_line(rows)] if recipe.data.rejected else []),
        ),
    )


def _labels_of_pairs(pairs: "Dataset") -> Iterator[list[int]]:
    """The labels of each pair: of its prompt, and of both replies."""
    for pair in pairs:
        yield [NOT_TRAINED] * len(pair[PROMPT]) + pair[CHOSEN] + pair[REJECTED]


def _labels_with_pictures(rows: "Dataset", processor: Any) -> Iterator[list[int]]:
    """The labels of each row, from the trainer's collator. It alone knows how many tokens a picture takes."""
    collate = picture_batch(processor)
    for row in rows:
        yield collate([row])["labels"][0].tolist()
