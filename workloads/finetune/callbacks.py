"""Callbacks of the trainer: saving on request, checkpoints to storage, progress."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from finetune.driver import Driver, Request
from finetune.metrics import MetricsLog, Pace, last_evaluation
from finetune.ranks import gathered, highest


class SaveOnRequest(TrainerCallback):
    """When any rank is asked to save or stop, all ranks do so after the same step."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._answered = Request.CONTINUE

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        request = Request(highest(self._driver.requested(), args.device))
        if request > self._answered:
            # Logged too, because the average since the last line would be lost with the process.
            control.should_log = control.should_save = True
            control.should_training_stop = control.should_training_stop or request == Request.SAVE_AND_STOP
            self._answered = request


class SaveCheckpoints(TrainerCallback):
    """Pass each checkpoint that the trainer wrote to the driver: from rank 0, or each rank's shards."""

    def __init__(self, driver: Driver):
        self._driver = driver

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        files = Path(str(args.output_dir), f"checkpoint-{state.global_step}")
        if not args.fsdp:
            _gather_random_states(files, args.process_index, args.world_size)
        metrics = {"step": state.global_step, **_last_logged(state)}
        has_part = bool(args.fsdp) or args.process_index == 0
        self._driver.save_checkpoint(state.global_step, metrics, files if has_part else None)


class ShowProgress(TrainerCallback):
    """Print and write what the trainer logs; for rank 0."""

    def __init__(self, log: MetricsLog):
        self._log = log

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
            self._log.append(progress)
        elif logs is not None and (evaluation := last_evaluation([{**logs, "step": state.global_step}])):
            self._pace.leave_out(logs["eval_runtime"])
            print(evaluation.line(), flush=True)
            self._log.append(evaluation)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        # A run that resumes from this checkpoint needs the lines up to it.
        self._log.flush()


def _gather_random_states(files: Path, rank: int, ranks: int) -> None:
    """Copy the random generators' states of all ranks into rank 0's directory, the one that is uploaded.

    With them a resumed run draws the same dropout masks, on whichever nodes it runs.
    """
    if ranks == 1:
        return
    states = gathered((files / f"rng_state_{rank}.pth").read_bytes())
    for number, state in enumerate(states or []):
        (files / f"rng_state_{number}.pth").write_bytes(state)


def _last_logged(state: TrainerState) -> dict[str, Any]:
    return {key: value for entry in state.log_history for key, value in entry.items() if key != "step"}
