"""Trains in this process, alone or under torchrun. SIGTERM and SIGINT save and stop."""

import os
import signal
import sys

from accelerate import PartialState

from finetune.run.driver import Request
from finetune.run.training import train
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.exit_codes import Exit
from shared.time_limit import TimeLimit


def run_local(recipe: Recipe, run: RunFolder, limit: TimeLimit) -> int:
    """Train in this process and return the exit code."""
    outcome = train(recipe, run, LocalDriver(run), limit)
    if outcome.finished:
        return Exit.FINISHED
    if outcome.limit_reached:
        if PartialState().is_main_process:
            print(f"error: {limit.sentence}", file=sys.stderr, flush=True)
        return Exit.LIMIT_REACHED
    print(
        f"run {run.name} was stopped after step {outcome.step} of {outcome.steps} and saved: "
        "the same command goes on from there",
        flush=True,
    )
    return Exit.INTERRUPTED


class LocalDriver:
    """Asks to save and stop on SIGTERM, and on the first SIGINT.

    At SIGTERM, a process that trains alone ends at once while its model is still loading: there is nothing to
    save. A process beside others goes on until all can save and stop together.
    """

    def __init__(self, run: RunFolder):
        self._run = run
        self._stopped = False
        self._alone = os.environ.get("WORLD_SIZE", "1") == "1"
        self._training = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        # torchrun and a terminal signal the whole process group. A data loader that ended would take this
        # process along before it has saved. Loaders watch their parent and end with it.
        os.register_at_fork(after_in_child=os.setpgrp)

    def begin(self) -> None:
        self._training = True

    def requested(self) -> Request:
        return Request.SAVE_AND_STOP if self._stopped else Request.CONTINUE

    def _stop(self, number: int, _: object) -> None:
        if number == signal.SIGTERM and self._alone and not self._training:
            # Not print: the signal may have interrupted one.
            message = f"run {self._run.name} was stopped while it was loading: the same command goes on\n"
            os.write(1, message.encode())
            os._exit(Exit.INTERRUPTED)
        self._stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
