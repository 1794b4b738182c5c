"""Callbacks of the trainer: saving on request, checkpoints to storage, progress, an end at NaN."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, gather, gather_object
from peft import get_peft_model_state_dict
from transformers import (
    EarlyStoppingCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from ending.files import MetricsLog
from ending.time_limit import TimeLimit
from ending.writer import not_finite
from finetune.checkpoint import RunFolder
from finetune.driver import Driver, Request
from finetune.metrics import Pace, last_evaluation
from finetune.model import verify_adapter
from finetune.sharding import save_gathered_adapter
from finetune.storage import Folder


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

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        # Each process asks, even when the time is up: on Ray one that does not keeps the others waiting.
        asked = self._driver.requested()
        if self._limit.reached():
            asked = Request.STOP_AT_LIMIT
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
    """Pass each checkpoint that the trainer wrote to the driver: from rank 0, or each rank's shards.

    Its adapter is read again first. One that differs from the trained adapter, or is not finite, is not kept.
    The best adapter so far is uploaded before a checkpoint says that it is the best. The previous best is
    deleted last.
    """

    def __init__(self, driver: Driver, run: RunFolder):
        self._driver, self._run = driver, run

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        files = Path(str(args.output_dir), f"checkpoint-{state.global_step}")
        if args.fsdp:
            save_gathered_adapter(others["model"], others["processing_class"], files)
        else:
            _gather_random_states(files, args.process_index, args.world_size)
            if args.process_index == 0:
                verify_adapter(get_peft_model_state_dict(others["model"]), files)
        has_part = bool(args.fsdp) or args.process_index == 0
        best = args.process_index == 0 and state.best_global_step == state.global_step
        if best:
            self._run.save_best(files, state.global_step)
        self._driver.save_checkpoint(state.global_step, files if has_part else None)
        if best:
            self._run.prune_best(state.global_step)


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

    def __init__(self, log: MetricsLog, folder: Folder):
        self._log, self._folder, self._pace = log, folder, Pace(0)

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
            print(progress.line(), flush=True)
            self._log.append(asdict(progress))
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
