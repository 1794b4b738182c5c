"""The fine-tune of l4-kueue on a tiny model, as the process in the Job's pods; for the training environment.

python trainee.py DIRECTORY make             makes model, data and recipe
python trainee.py DIRECTORY train RUN        trains to the end, or until SIGTERM
python trainee.py DIRECTORY train RUN STEP   holds at the end of STEP until SIGTERM; the file `held` says so
"""

import signal
import socket
import sys
from pathlib import Path
from typing import Any

RECIPE = "gemma-3-4b-sql"


def make(directory: Path) -> None:
    """What the shipped recipe needs, small; a run of 12 steps with a checkpoint every fifth."""
    from tiny import make_model, make_recipe, make_texts

    make_texts(directory)
    make_model(directory / "model")
    few = {"batch_size": 2, "accumulation_steps": 1, "packing": False, "save_every_steps": 5}
    make_recipe(directory / "recipe.yaml", directory, RECIPE, **few)


def hold_at(step: int, held: Path) -> None:
    """Stands still in `step` until SIGTERM has come."""
    from finetune.driver import Wish
    from finetune.local_driver import LocalDriver

    original = LocalDriver.wish
    steps = iter(range(1, 1000))

    def wish(driver: LocalDriver) -> Wish:
        if next(steps) == step:
            told, teller = socket.socketpair()
            teller.setblocking(False)
            signal.set_wakeup_fd(teller.fileno())
            held.touch()
            told.recv(1)
            signal.set_wakeup_fd(-1)
        return original(driver)

    patched: Any = LocalDriver
    patched.wish = wish


def main(arguments: list[str]) -> int:
    """Does what the arguments say; returns the exit code."""
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
