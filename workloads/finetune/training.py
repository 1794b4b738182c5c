"""A recipe's training in one process of possibly many: unchanged on one CPU, under torchrun and under Ray."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from finetune.callbacks import SaveCheckpoints, ShowProgress, StopInTime
from finetune.checkpoint import RunFolder
from finetune.data import load_conversations
from finetune.driver import Driver
from finetune.metrics import MetricsLog
from finetune.model import fetch_model, load_model, lora_config, verify_adapter
from finetune.ranks import agreed
from finetune.recipe import Recipe
from finetune.sharding import (
    gather_adapter,
    is_sharded,
    loading_once,
    restore_adapter,
    shard_by_layer,
    sharding_arguments,
)


@dataclass(frozen=True)
class Outcome:
    """How far a run has come, in optimizer steps; finished means that the adapter is published."""

    step: int
    steps: int
    finished: bool


def train(recipe: Recipe, run: RunFolder, driver: Driver) -> Outcome:
    """Train from the newest complete checkpoint to the end and publish, or until asked to stop."""
    workspace = _workspace(run)
    arguments = sft_arguments(recipe, workspace)
    newest = agreed(run.newest_checkpoint() if arguments.process_index == 0 else None)
    # Local rank 0 downloads, the other processes of the node then find everything on disk.
    with arguments.main_process_first(desc="download"):
        fetch_model(recipe.model.name)
        rows = load_conversations(recipe.data)
        resume = run.fetch_checkpoint(newest, workspace) if newest else None
    callbacks: list[TrainerCallback] = [StopInTime(driver)]
    if arguments.process_index == 0:
        step = newest.step if newest else 0
        print(f"{len(rows)} rows, {arguments.world_size} processes, from step {step}", flush=True)
        callbacks.append(ShowProgress(MetricsLog(run.folder, step)))
    trainer = build_trainer(recipe, arguments, rows, [*callbacks, SaveCheckpoints(driver)])
    outcome, adapter = _finish_training(trainer, resume)
    if outcome.finished and arguments.process_index == 0:
        run.publish(adapter, {"run": run.name, "steps": outcome.steps, "base_model": recipe.model.name})
    shutil.rmtree(str(arguments.output_dir), ignore_errors=True)
    return outcome


def build_trainer(
    recipe: Recipe, arguments: SFTConfig, rows: Dataset, callbacks: list[TrainerCallback]
) -> SFTTrainer:
    """The trainer of a recipe over conversations."""
    sharded = is_sharded(recipe.training)
    with loading_once(sharded):
        model, processor = load_model(recipe.model, arguments.device)
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        processing_class=processor,
        peft_config=lora_config(recipe.lora),
        callbacks=callbacks,
    )
    if sharded:
        shard_by_layer(trainer)
    # ShowProgress prints the same figures in one readable line.
    trainer.remove_callback(PrinterCallback)
    return trainer


def sft_arguments(recipe: Recipe, workspace: Path) -> SFTConfig:
    """The trainer's settings. Each rank writes into its own directory below `workspace`, emptied here."""
    training = recipe.training
    on_gpu = torch.cuda.is_available()
    arguments = SFTConfig(
        output_dir=str(workspace),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch_size,
        gradient_accumulation_steps=training.accumulation_steps,
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.schedule,
        optim=training.optimizer,
        max_grad_norm=training.max_grad_norm,
        gradient_checkpointing=training.gradient_checkpointing,
        bf16=recipe.model.precision == "bf16",
        use_cpu=not on_gpu,
        seed=training.seed,
        data_seed=training.seed,
        dataloader_num_workers=training.loader_processes,
        dataloader_pin_memory=on_gpu,
        logging_steps=training.log_every_steps,
        save_strategy="steps",
        save_steps=training.save_every_steps,
        save_total_limit=1,
        completion_only_loss=True,
        # The loss is the average over all reply tokens of a step, however the step is cut into ranks, batches
        # and accumulation; else a short reply would weigh more than a long one.
        average_tokens_across_devices=True,
        # A cut in the middle of a picture's tokens would be an error; rows are short.
        max_length=None,
        # Rows are made when asked for: the trainer would look for `prompt` among the raw columns.
        remove_unused_columns=False,
        # Every adapter weight is used in every step; looking for unused ones costs a pass over the graph.
        ddp_find_unused_parameters=False,
        disable_tqdm=True,
        report_to="none",
        **sharding_arguments(training),
    )
    arguments.output_dir = str(workspace / f"rank-{arguments.process_index}")
    shutil.rmtree(arguments.output_dir, ignore_errors=True)
    return arguments


def _finish_training(trainer: SFTTrainer, resume: Path | None) -> tuple[Outcome, Path]:
    """Train to the end or until asked to stop; at the end rank 0 finds the adapter, checked, in the path."""
    state = json.loads((resume / "trainer_state.json").read_text()) if resume else None
    if resume and state and state["global_step"] >= state["max_steps"]:
        # The checkpoint is the end already: resuming that would train one step more.
        outcome = Outcome(state["global_step"], state["max_steps"], True)
        return outcome, _restored_adapter(trainer, resume) if trainer.args.process_index == 0 else resume
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    step, steps = trainer.state.global_step, trainer.state.max_steps
    outcome = Outcome(step, steps, step >= steps)
    adapter = Path(str(trainer.args.output_dir), f"checkpoint-{step}")
    if outcome.finished and trainer.args.fsdp:
        adapter = Path(str(trainer.args.output_dir), "adapter")
        gather_adapter(trainer, adapter)
    elif outcome.finished and trainer.args.process_index == 0:
        verify_adapter(cast(PeftModel, trainer.model), adapter)
    return outcome, adapter


def _restored_adapter(trainer: SFTTrainer, checkpoint: Path) -> Path:
    adapter = checkpoint
    if trainer.args.fsdp:
        adapter = Path(str(trainer.args.output_dir), "adapter")
        restore_adapter(trainer, checkpoint, adapter)
    else:
        cast(PeftModel, trainer.model).load_adapter(str(checkpoint), adapter_name="default")
    verify_adapter(cast(PeftModel, trainer.model), adapter)
    return adapter


def _workspace(run: RunFolder) -> Path:
    """One directory per node and run, the same for all processes of a node."""
    identity = hashlib.sha256(run.folder.uri.encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir(), "finetune", f"{run.name}-{identity}")
    path.mkdir(parents=True, exist_ok=True)
    return path
