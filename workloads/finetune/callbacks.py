"""What happens beside the training steps: stopping in time, checkpoints to storage, progress."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from finetune.driver import Driver, Wish
from finetune.metrics import MetricsLog, Pace, last_evaluation
from finetune.ranks import gathered, highest


class StopInTime(TrainerCallback):
    """Save, and stop if asked to, at the same step on every rank, whichever rank was asked."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._answered = Wish.GO_ON

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        wish = Wish(highest(self._driver.wish(), args.device))
        if wish > self._answered:
            # The log keeps the average since the last line from being lost with the process.
            control.should_log = control.should_save = True
            control.should_training_stop = control.should_training_stop or wish == Wish.SAVE_AND_STOP
            self._answered = wish


class SaveCheckpoints(TrainerCallback):
    """Hand each checkpoint that the trainer has written to the driver: rank 0's, or each rank's shards."""

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
        # Whoever resumes from this checkpoint must find the lines up to it.
        self._log.flush()


def _gather_random_states(files: Path, rank: int, ranks: int) -> None:
    """Each rank writes its generator states into its own directory; bring them to rank 0's, which is kept.

    With them dropout draws the same masks after a resume on any node.
    """
    if ranks == 1:
        return
    states = gathered((files / f"rng_state_{rank}.pth").read_bytes())
    for number, state in enumerate(states or []):
        (files / f"rng_state_{number}.pth").write_bytes(state)


def _last_logged(state: TrainerState) -> dict[str, Any]:
    return {key: value for entry in state.log_history for key, value in entry.items() if key != "step"}
