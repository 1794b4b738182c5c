"""The trial of a stack's recipe on this machine, before anything is created."""

import os
import subprocess
from dataclasses import replace
from typing import Final

from engine.command import ending
from engine.project import ROOT
from operations import findings
from operations.checks.hub import token_of
from operations.errors import OperationError
from operations.findings import Finding
from operations.plan import StackPlan
from workloads.shared.exit_codes import Exit

TOPIC: Final = "trial"
# How the line begins that says why no trial is possible.
_SKIPPED: Final = "warning: no trial of "


def try_recipe(planned: StackPlan) -> Finding:
    """Runs the trial, which takes minutes. The finding is the line that says how it ended.

    Raises:
        OperationError: When the stack has no recipe to try, or there is no training environment.
    """
    if not planned.trial_command:
        raise OperationError(f"--trial: {planned.stack} trains no recipe of workloads/finetune")
    if not (ROOT / planned.trial_command[0]).exists():
        raise OperationError("--trial needs the training environment: make setup")
    token = token_of(planned)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "workloads"),
        **({"HF_TOKEN": token} if token else {}),
    }
    done = subprocess.run(
        planned.trial_command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return replace(_finding(done), topic=TOPIC)


def _finding(done: subprocess.CompletedProcess[str]) -> Finding:
    """The finding by the exit code. Libraries write to stderr too. The trial's own line is the last."""
    errors, lines = done.stderr.strip().splitlines(), done.stdout.strip().splitlines()
    if done.returncode == Exit.FINISHED:
        if skipped := [line for line in errors if line.startswith(_SKIPPED)]:
            return findings.warning(skipped[-1].removeprefix("warning: "))
        return findings.fine(lines[-1])
    reason = (errors or [f"the trial {ending(done.returncode)}"])[-1].removeprefix("error: ")
    if done.returncode == Exit.BAD_INPUT:
        return findings.problem(reason, "change what the line names, then again")
    return findings.unknown(reason, "try again later")
