"""Callbacks of the trainer: saving on request, checkpoints to storage, progress, an end at NaN."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather, gather_object
from peft import PeftModel, get_peft_model_state_dict
from transformers import (
    EarlyStoppingCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from finetune.model.all_weights import check_weights, save_whole
from finetune.model.loading import verify_adapter
from finetune.model.sharding import save_gathered_adapter
from finetune.run.driver import Driver, Request
from finetune.run.metrics import Pace, last_evaluation
from finetune.storage.checkpoint import RunFolder, checkpoint_name
from finetune.storage.folder import Folder
from shared import price
from shared.files import MetricsLog
from shared.time_limit import TimeLimit
from shared.writer import not_finite


class SaveOnRequest(TrainerCallback):
    """When any rank is asked to save or stop, or the time is up, all ranks do so after the same step.

    When a newer start has become the run's writer, all of them end instead.

    Attributes:
        answered: The highest request of any rank so far.
    """

    def __init__(self, driver: Driver, limit: TimeLimit, run: RunFolder):
        self._driver, self._limit, self._run = driver, limit, run
        self.answered = Request.CONTINUE

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._driver.begin()
        self._limit.progress()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        # Each process asks, even when the time is up: on Ray one that does not keeps the others waiting.
        asked = self._driver.requested()
        if self._limit.reached():
            asked = Request.STOP_AT_LIMIT
        self._limit.progress()
        request = Request(int(gather(torch.tensor([asked], device=args.device)).max()))
        if request > self.answered:
            control.should_save = True
            control.should_training_stop = control.should_training_stop or request >= Request.SAVE_AND_STOP
            self.answered = request
        if control.should_save:
            (end,) = broadcast_object_list([None if args.process_index else self._run.writer.replaced()])
            if end:
                raise end
        # The average since the last line would be lost with the process. Logging checks that it is finite.
        control.should_log = control.should_log or control.should_save

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        self._limit.progress()

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        self._limit.progress()

    def on_save(self, *_: Any, **__: Any) -> None:
        self._limit.progress()


class StopUnlessFinite(TrainerCallback):
    """End the run, before it logs or saves, when loss or gradient of any rank is not a finite number.

    Damage of an earlier step shows in the next loss that is logged.
    """

    def __init__(self, run: RunFolder):
        self._run = run

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        figures = [value for key, value in (logs or {}).items() if key in ("loss", "grad_norm", "eval_loss")]
        finite = torch.tensor(figures, device=args.device).isfinite().all()
        if gather(finite[None]).all():
            return
        # One process asks, since asking changes the answer.
        end = None
        if args.process_index == 0:
            kept = self._run.newest_checkpoint()
            name = kept.name if kept else None
            end = not_finite(self._run.folder, state.global_step, name, "training.learning_rate")
        (end,) = broadcast_object_list([end])
        raise end


class SaveCheckpoints(TrainerCallback):
    """Upload each checkpoint that the trainer wrote: from rank 0, or each rank's shards.

    Its adapter, or its weights, are checked first. A checkpoint that differs from what was trained, or is not
    finite, is not kept. The best result so far is uploaded before a checkpoint says that it is the best. The
    previous best is deleted last.

    A node's disk has no room for two checkpoints with all weights. So a checkpoint is deleted there once the
    run has resumed from it, and one with all weights once it is uploaded.
    """

    def __init__(self, run: RunFolder, keep: int, resumed: Path | None):
        self._run, self._keep, self._resumed = run, keep, resumed

    def on_step_end(self, args: TrainingArguments, *_: Any, **__: Any) -> None:
        # The trainer has read the states of the random generators at the first step, the rest before it.
        if self._resumed and args.local_process_index == 0:
            shutil.rmtree(self._resumed, ignore_errors=True)
        self._resumed = None

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        files = Path(str(args.output_dir), f"checkpoint-{state.global_step}")
        model: Any = others["model"]
        has_part = bool(args.fsdp) or args.process_index == 0
        if not args.fsdp:
            _gather_random_states(files, args.process_index, args.world_size)
        if not isinstance(model, PeftModel):
            if has_part:
                check_weights(model, files)
        elif args.fsdp:
            save_gathered_adapter(model, others["processing_class"], files)
        elif has_part:
            verify_adapter(get_peft_model_state_dict(model), files)
        best = state.best_global_step == state.global_step
        result = files
        if best and not isinstance(model, PeftModel):
            result = files.with_name("best")
            save_whole(model, result)
        best = best and args.process_index == 0
        if best:
            self._run.save_best(result, state.global_step)
        self._upload(state.global_step, files if has_part else None)
        if best:
            self._run.prune_best(state.global_step)
        if not isinstance(model, PeftModel):
            shutil.rmtree(files, ignore_errors=True)
            shutil.rmtree(result, ignore_errors=True)

    def _upload(self, step: int, files: Path | None) -> None:
        """Upload this rank's part of a checkpoint, if it has one. The first rank marks it as complete."""
        (name,) = broadcast_object_list([checkpoint_name(step)])
        uploaded = self._run.upload_to_checkpoint(files, name) if files else {}
        # Returns once every rank has uploaded its part.
        parts = gather_object([uploaded])
        if PartialState().is_main_process:
            all_files = {file: digest for part in parts for file, digest in part.items()}
            self._run.complete_checkpoint(name, all_files)
            self._run.prune_checkpoints(self._keep)


class StopEarly(EarlyStoppingCallback):
    """The library's callback without its warning that it does not load the best model itself."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Do nothing. The library warns here."""

    @staticmethod
    def stopped(state: TrainerState, patience: int | None) -> bool:
        """Whether a run with this state has stopped early."""
        saved: Any = state.stateful_callbacks
        return patience is not None and (
            saved["StopEarly"]["attributes"]["early_stopping_patience_counter"] >= patience
        )


class ShowProgress(TrainerCallback):
    """Print and write what the trainer logs. Only rank 0 has this callback."""

    def __init__(self, log: MetricsLog, folder: Folder, limit: TimeLimit):
        self._log, self._folder, self._limit, self._pace = log, folder, limit, Pace(0)

    def show_answers(self, step: int, figures: dict[str, float], seconds: float) -> None:
        """Show the figures of the model's answers, which took `seconds`."""
        self._pace.leave_out(seconds)
        when = f"step {step} answers" if step else f"answers before the training, in {seconds:.0f} s,"
        print(when, *(f"{name} {value:.6g}" for name, value in figures.items()), flush=True)
        self._log.append({"step": step, **figures})
        self._log.flush()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._pace = Pace(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        if logs is not None and "loss" in logs:
            progress = self._pace.measure(state.global_step, state.max_steps, state.epoch or 0.0, logs)
            spent = price.spent(self._limit.seconds)
            print(f"{progress.line()}{price.words(spent)}", flush=True)
            self._log.append(asdict(progress) | spent)
        elif logs is not None and (evaluation := last_evaluation([{**logs, "step": state.global_step}])):
            self._pace.leave_out(logs["eval_runtime"])
            print(evaluation.line(), flush=True)
            self._log.append(asdict(evaluation))

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        # A run that resumes from this checkpoint needs the lines up to it.
        self._log.flush()
        # TensorBoard's callback writes below the output directory.
        for events in Path(str(args.output_dir), "runs").glob("*/events.*"):
            self._folder.upload(events, f"tensorboard/{events.name}")


def _gather_random_states(files: Path, rank: int, ranks: int) -> None:
    """Copy the random generators' states of all ranks into rank 0's directory, which is uploaded.

    With them a resumed run draws the same dropout masks, on whichever nodes it runs.
    """
    if ranks == 1:
        return
    states = gather_object([(files / f"rng_state_{rank}.pth").read_bytes()])
    if rank == 0:
        for number, state in enumerate(states):
            (files / f"rng_state_{number}.pth").write_bytes(state)
