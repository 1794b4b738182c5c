"""Trains a recipe in one process of a run, in the same way on one CPU, under torchrun and under Ray."""

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback, TrainerState
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from conversations import day
from conversations.chat_template import ChatTemplate
from conversations.stops import missing_stop
from finetune.model.adapter import check_adapter, lora_config
from finetune.model.all_weights import choose_weights
from finetune.model.first_adapter import load_first_weights
from finetune.model.kernels import check_gpu
from finetune.model.loading import (
    as_model_allows,
    empty_model,
    fetch_model,
    load_model,
    load_processor,
)
from finetune.model.sharding import is_sharded, loaded_by_one_process, shard_by_layer, sharding_arguments
from finetune.results.check import Check
from finetune.results.result import check_result, load_trained, publish_result
from finetune.rows.data import load_conversations, settle_for
from finetune.rows.pair_tokens import rejected_line
from finetune.rows.picture_check import check_pictures
from finetune.rows.prefix import PrefixedBatch
from finetune.rows.tokens import PictureBatch, first_row
from finetune.run.answers import Answers, JudgeUntrained
from finetune.run.callbacks import SaveCheckpoints, SaveOnRequest, ShowProgress, StopEarly, StopUnlessFinite
from finetune.run.choices import chosen_together
from finetune.run.driver import Driver
from finetune.run.outcome import Outcome, outcome_of, summary_of
from finetune.run.preference import build_pair_trainer, pair_arguments
from finetune.run.trackers import name_run
from finetune.run.trainer import RowTrainer, balance_experts
from finetune.run.transport import check_transport, describe
from finetune.run.turns import in_turns, token_rows
from finetune.settings.recipe import Recipe
from finetune.settings.trl_settings import checked, errors_of_trl
from finetune.storage.adapter_files import AdapterFiles, fetch_adapter
from finetune.storage.checkpoint import RunFolder, SavedCheckpoint, best_at
from finetune.storage.folder import Folder
from shared.errors import InputError
from shared.exporter import Exporter
from shared.files import MetricsLog
from shared.recipe_file import RecipeError
from shared.time_limit import TimeLimit

A = TypeVar("A", SFTConfig, DPOConfig)


def train(recipe: Recipe, run: RunFolder, driver: Driver, limit: TimeLimit) -> Outcome:
    """Train from the newest complete checkpoint to the end, and publish the result.

    Training also ends when the process is asked to stop, and at the limit. Loading and publishing count as
    time that the run has trained.
    """
    check_transport()
    workspace = _workspace(run)
    name_run(workspace)
    arguments = trainer_arguments(recipe, workspace)
    try:
        with limit.counted():
            return _train(recipe, run, driver, limit, workspace, arguments)
    finally:
        shutil.rmtree(str(arguments.output_dir), ignore_errors=True)


def _train(
    recipe: Recipe,
    run: RunFolder,
    driver: Driver,
    limit: TimeLimit,
    workspace: Path,
    arguments: SFTConfig | DPOConfig,
) -> Outcome:
    names = recipe.open
    newest, recipe = _begin_together(recipe, run, workspace, arguments.process_index == 0)
    day.keep(*broadcast_object_list([None if arguments.process_index else run.day()]))
    if (line := describe(arguments.device)) and arguments.process_index == 0:
        print(line, flush=True)
    # Local rank 0 downloads first. The other processes of the node then read the files from disk.
    with arguments.main_process_first(desc="download"):
        published, first = fetch_model(recipe.model), fetch_adapter(recipe.model)
        rows, test_rows = load_conversations(recipe.data, recipe.training.rows_seed)
        resume = run.fetch_checkpoint(newest, workspace) if newest else None
    # At every save PEFT would ask the Hub for the configuration on today's main branch.
    os.environ["HF_HUB_OFFLINE"] = "1"
    recipe, arguments, prepared = _settle(recipe, names, run, rows, workspace)
    asked = SaveOnRequest(driver, limit, run)
    callbacks: list[TrainerCallback] = [asked, StopUnlessFinite(run)]
    step, size, is_first = newest.step if newest else 0, arguments.world_size, arguments.process_index == 0
    progress = _show_start(recipe, run, published, rows, prepared, size, step, limit) if is_first else None
    saves = SaveCheckpoints(run, recipe.training.checkpoints_to_keep, resume)
    callbacks += [progress, saves] if progress else [saves]
    if patience := recipe.training.early_stopping_patience:
        callbacks.append(StopEarly(patience))
    answers = None
    if test_rows and recipe.evaluation.rows:
        answers = Answers(recipe, test_rows, run, progress, limit, published, prepared.processor)
        callbacks = [JudgeUntrained(answers), *callbacks, answers]
    state = TrainerState.load_from_json(str(resume / "trainer_state.json")) if resume else None
    if resume and state and (state.global_step >= state.max_steps or StopEarly.stopped(state, patience)):
        # The trainer would resume with one more step. What is left, publishing, is not cut off.
        driver.begin()
        check_result(recipe, run, resume)
        outcome, trained, model = outcome_of(state), resume, None
    else:
        trainer = _with_loss(
            answers, build_trainer(recipe, arguments, rows, test_rows, callbacks, first, run.folder)
        )
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        outcome = outcome_of(trainer.state, asked.answered)
        trained, model = Path(str(arguments.output_dir), f"checkpoint-{outcome.step}"), trainer.model
    if outcome.finished and outcome.best != outcome.step:
        with arguments.main_process_first(desc="download"):
            trained, model = run.fetch_checkpoint(best_at(outcome.best), workspace), None
    if outcome.finished and answers:
        model = model or load_trained(recipe, trained, arguments.device)
        figures, before = answers.at_the_end(model, outcome.best)
        outcome = replace(outcome, answers=figures, before=before)
    limit.progress()
    if outcome.finished:
        summary = summary_of(recipe, run, outcome, prepared.about is not None)
        check = Check(recipe, run, test_rows or rows, prepared.processor)
        publish_result(recipe, run, published, trained, model, arguments, summary, check, prepared.processor)
    return outcome


def _with_loss(answers: Answers | None, trainer: SFTTrainer | DPOTrainer) -> SFTTrainer | DPOTrainer:
    """The trainer, which evaluates the untrained model when `answers` ask for it."""
    if answers:
        answers.evaluate = trainer.evaluate
    return trainer


def _settle(
    recipe: Recipe, names: list[str], run: RunFolder, rows: Dataset, workspace: Path
) -> tuple[Recipe, SFTConfig | DPOConfig, "_Prepared"]:
    """The recipe with what the run chooses, the trainer's settings, and the model's processor."""
    prepared = _prepare(recipe, rows)
    recipe = chosen_together(recipe, names, run, rows, prepared.processor)
    return recipe, trainer_arguments(recipe, workspace), prepared


def _show_start(
    recipe: Recipe,
    run: RunFolder,
    published: Path,
    rows: Dataset,
    prepared: "_Prepared",
    processes: int,
    step: int,
    limit: TimeLimit,
) -> ShowProgress:
    """Print where the run stands and the first row as the model sees it. Returns what shows the rest."""
    print(f"{len(rows)} rows, {processes} processes, from step {step}{run.sizes(processes)}")
    processor = prepared.processor
    tokenizer = getattr(processor, "tokenizer", processor)
    about_stop = missing_stop(tokenizer, published, recipe.training.result)
    about_day = day.line(tokenizer, run.day() or day.today())
    for line in filter(None, (prepared.about, about_stop, about_day)):
        print(line)
    shown = first_row(rows, processor, recipe.data.image is not None)
    shown += [rejected_line(rows)] if recipe.data.rejected else []
    print("the first row as the model sees it:", *shown, sep="\n", flush=True)
    return ShowProgress(MetricsLog(run.folder, step, exporter=Exporter(run.name)), run.folder, limit)


def _begin_together(
    recipe: Recipe, run: RunFolder, workspace: Path, is_first: bool
) -> tuple[SavedCheckpoint | None, Recipe]:
    """The run's newest checkpoint, and the recipe as the model allows it, with its commits.

    The first process finds out, and tells the others. All raise its InputError or RecipeError: each of the
    others would end in a traceback otherwise.
    """
    newest, problem = None, None
    if is_first:
        try:
            recipe = as_model_allows(recipe)
            newest = _begin(recipe, run, workspace)
        except (InputError, RecipeError) as error:
            problem = error
    newest, recipe, problem = broadcast_object_list([newest, recipe, problem])
    if problem:
        raise problem
    return newest, recipe


def _begin(recipe: Recipe, run: RunFolder, workspace: Path) -> SavedCheckpoint | None:
    """Become the run's writer, and fetch its newest checkpoint, if there is one."""
    check_gpu(recipe)
    check_adapter(recipe, empty_model(recipe.model))
    run.folder.first_access(run.writer.begin)
    if run.folder.first_access(run.newest_checkpoint):
        return run.fetch_newest(workspace)
    return None


def build_trainer(
    recipe: Recipe,
    arguments: SFTConfig | DPOConfig,
    rows: Dataset,
    test_rows: Dataset | None,
    callbacks: list[TrainerCallback],
    first: AdapterFiles | None = None,
    beside: Folder | None = None,
) -> SFTTrainer | DPOTrainer:
    """The trainer of a recipe over conversations, with the model, and perhaps an adapter, from disk.

    The tokens stay in `beside`, the run's folder, too.
    """
    processor = _prepare(recipe, rows).processor
    make = partial(token_rows, recipe, processor, rows, test_rows, beside)
    prefix, rows, test_rows = in_turns(arguments, make)
    if isinstance(arguments, DPOConfig):
        return build_pair_trainer(recipe, arguments, processor, rows, test_rows, callbacks, first)
    arguments.packing = recipe.training.packs
    with loaded_by_one_process(is_sharded(recipe.training)):
        model = load_model(
            recipe.model, arguments.device, packed=recipe.training.packs, trained=recipe.lora is None
        )
    trainer = assemble(recipe, arguments, model, processor, prefix, rows, test_rows, callbacks)
    if first:
        load_first_weights(first.folder, trainer.model)
    return trainer


@dataclass(frozen=True)
class _Prepared:
    """The model's processor, whose chat template asks as the rows answer. A line if that is a change."""

    processor: Any
    about: str | None


def _prepare(recipe: Recipe, rows: Dataset) -> _Prepared:
    model, pictures = recipe.model, recipe.data.image is not None
    processor = load_processor(model.name, pictures, model.revision, model.chat_template)
    check_pictures(recipe.data, rows, processor)
    return _Prepared(processor, settle_for(recipe.data, rows, processor))


def assemble(
    recipe: Recipe,
    arguments: SFTConfig,
    model: Any,
    processor: Any,
    prefix: list[int],
    rows: Dataset,
    test_rows: Dataset | None,
    callbacks: list[TrainerCallback],
) -> SFTTrainer:
    """The trainer of a recipe. Rows are conversations with pictures, or tokens that follow the `prefix`."""
    # Rows that are not packed are as the trainer takes them.
    arguments.dataset_kwargs = {"skip_prepare_dataset": not recipe.training.packing}
    if recipe.training.packing:
        arguments.max_length = cast(int, recipe.training.max_length) - len(prefix)
    lora = lora_config(recipe.lora, model, recipe.model.revision) if recipe.lora else None
    if lora is None:
        choose_weights(model, pictures=recipe.data.image is not None)
    balance_experts(arguments, model, recipe)
    with errors_of_trl(recipe.training):
        trainer = RowTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=test_rows,
            processing_class=processor,
            peft_config=lora,
            callbacks=callbacks,
        )
    # Some models, Gemma 4 among them, say that their own loss cannot count tokens across batches. trl's can.
    trainer.model_accepts_loss_kwargs = True
    if recipe.training.packing:
        trainer.data_collator = PrefixedBatch(prefix, trainer.data_collator)
    if recipe.data.image:
        template = ChatTemplate(processor.tokenizer, processor)
        trainer.data_collator = PictureBatch(template, trainer.data_collator)
    if is_sharded(recipe.training):
        shard_by_layer(trainer)
    # The trainer casts the adapter of a 4-bit model to bf16, which loses small updates. A resumed run would
    # load it in fp32 and have other losses than an uninterrupted one.
    for weight in cast(torch.nn.Module, trainer.model).parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    # ShowProgress prints the same figures in one readable line.
    trainer.remove_callback(PrinterCallback)
    return trainer


def trainer_arguments(recipe: Recipe, workspace: Path) -> SFTConfig | DPOConfig:
    """The settings of the task's trainer, as `sft_arguments` makes them."""
    if recipe.task == "fine-tune":
        return sft_arguments(recipe, workspace)
    with errors_of_trl(recipe.training):
        return _in_own_folder(pair_arguments(_settings(recipe, workspace), recipe.training), workspace)


def sft_arguments(recipe: Recipe, workspace: Path) -> SFTConfig:
    """The trainer's settings. Each rank writes into its own directory in `workspace`, emptied first."""
    with errors_of_trl(recipe.training):
        arguments = SFTConfig(**_settings(recipe, workspace), **checked(recipe.training.trl))
    return _in_own_folder(arguments, workspace)


def _in_own_folder(arguments: A, workspace: Path) -> A:
    arguments.output_dir = str(workspace / f"rank-{arguments.process_index}")
    shutil.rmtree(arguments.output_dir, ignore_errors=True)
    return arguments


def _settings(recipe: Recipe, workspace: Path) -> dict[str, Any]:
    training = recipe.training
    on_gpu = torch.cuda.is_available()
    return dict(
        output_dir=str(workspace),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch,
        # One pack or group of rows at a time, so that no row counts twice when processes share them unevenly.
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=training.accumulation_steps,
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.schedule,
        warmup_steps=training.warmup_steps,
        weight_decay=training.weight_decay,
        optim=training.optimizer,
        max_grad_norm=training.max_grad_norm,
        gradient_checkpointing=training.recomputes,
        bf16=recipe.model.precision == "bf16",
        use_cpu=not on_gpu,
        seed=training.seed,
        data_seed=training.rows_seed,
        dataloader_num_workers=training.loader_processes,
        dataloader_pin_memory=on_gpu,
        logging_steps=training.log_every_steps,
        # The filter would show the previous loss in place of one that is not finite.
        logging_nan_inf_filter=False,
        # More steps than there are: evaluation at the end only.
        eval_strategy="steps" if recipe.data.test_rows else "no",
        eval_steps=training.evaluate_every_steps or sys.maxsize,
        save_strategy="steps",
        save_steps=training.save_every_steps,
        save_total_limit=1,
        # This package publishes the best one. The library knows only the checkpoints of one start.
        metric_for_best_model="eval_loss" if training.load_best_model_at_end else None,
        greater_is_better=False,
        restore_callback_states_from_checkpoint=training.early_stopping_patience is not None,
        completion_only_loss=True,
        # The loss is the average over all reply tokens of a step, across ranks and accumulated batches.
        # Averaged by batch first, a token of a short reply would count more than one of a long reply.
        average_tokens_across_devices=True,
        # The default strategy, best fit, splits no row, and no row attends to another.
        packing=training.packs,
        # Longer rows of text have been left out. Rows with pictures have no limit and must not be truncated.
        max_length=training.max_length,
        # Rows with pictures are computed when read, so the trainer would not find `prompt` among the columns.
        remove_unused_columns=False,
        # Every step uses every weight of the adapter. A search for unused ones costs a pass over the graph.
        ddp_find_unused_parameters=False,
        disable_tqdm=True,
        report_to=training.report_to or "none",
        run_name=workspace.name,
        **sharding_arguments(training),
    )


def _workspace(run: RunFolder) -> Path:
    """A directory for each run on a node, the same for all processes of the node."""
    identity = hashlib.sha256(run.folder.uri.encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir(), "finetune", f"{run.name}-{identity}")
    path.mkdir(parents=True, exist_ok=True)
    return path
