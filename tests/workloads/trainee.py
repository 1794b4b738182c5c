"""The fine-tune of l4-kueue on a tiny model, for the processes of the Job's pods. Runs in .venv-training.

- python trainee.py DIRECTORY make: makes model, data and recipe
- python trainee.py DIRECTORY train RUN: trains to the end, or until SIGTERM
- python trainee.py DIRECTORY train RUN STEP: writes the file `held` at the end of STEP and waits for SIGTERM
"""

import signal
import socket
import sys
from pathlib import Path
from typing import Any

RECIPE = "gemma-3-4b-sql"


def make(directory: Path) -> None:
    """Make a tiny model and data, and a recipe of 12 steps with a checkpoint every fifth."""
    from rehearsal.run.tiny import make_model, make_recipe, make_texts

    make_texts(directory)
    make_model(directory / "model")
    few = {"batch_size": 2, "accumulation_steps": 1, "save_every_steps": 5}
    few |= {"packing": False, "loader_processes": 2}
    make_recipe(directory / "recipe.yaml", directory, RECIPE, **few)


def hold_at(step: int, held: Path) -> None:
    """Wait in `step` for SIGTERM."""
    from finetune.driver import Request
    from finetune.local_driver import LocalDriver

    original = LocalDriver.requested
    steps = iter(range(1, 1000))

    def requested(driver: LocalDriver) -> Request:
        if next(steps) == step:
            receiver, sender = socket.socketpair()
            sender.setblocking(False)
            signal.set_wakeup_fd(sender.fileno())
            held.touch()
            receiver.recv(1)
            signal.set_wakeup_fd(-1)
        return original(driver)

    patched: Any = LocalDriver
    patched.requested = requested


def main(arguments: list[str]) -> int:
    """Run the command and return the exit code."""
    directory, command, *more = arguments
    if command == "make":
        make(Path(directory))
        return 0
    run, *step = more
    if step:
        hold_at(int(step[0]), Path(directory, "held"))
    from finetune.__main__ import main as finetune

    return finetune(["local", f"--recipe={directory}/recipe.yaml", f"--storage={directory}", f"--run={run}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
