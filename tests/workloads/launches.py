"""Starts the torchrun command on two processes of this machine."""

import json
import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import faulty
import pytest
import yaml

from finetune.__main__ import main

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def command(recipe: Path, store: Path | str, run: str, processes: int = 2) -> list[str]:
    """The torchrun command."""
    return ["torchrun", *local(recipe, store, run)[1:], "--processes", str(processes)]


def local(recipe: Path, store: Path | str, run: str) -> list[str]:
    """The command of one process."""
    return ["local", "--recipe", str(recipe), "--storage", str(store), "--run", run]


def torchrun(
    warm: str,
    recipe: Path,
    folder: Path,
    *plan: dict[str, Any],
    store: Path | str | None = None,
    more: Sequence[str] = (),
    processes: int = 2,
) -> tuple[int, str]:
    """Run the torchrun command for `mine` with a plan of `faulty`. Returns the exit code and the output.

    `more` are arguments of the command, besides those of its processes in the plan. The plan and the output
    are written to `folder`, as is the run unless there is another `store`.
    """
    from finetune import torchrun as module

    plan_file, output = folder / "plan.json", folder / "output.txt"
    plan_file.write_text(json.dumps(plan))
    with pytest.MonkeyPatch.context() as patch, kept_signals(), redirected(output):
        patch.setattr(module, "WORKER", (warm, faulty.__file__, str(plan_file)))
        code = main([*command(recipe, store or folder, "mine", processes), *more])
    return code, output.read_text()


@contextmanager
def kept_signals() -> Generator[None]:
    """Restore the signal handlers that torchrun replaces."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def redirected(output: Path) -> Generator[None]:
    """Redirect the output of this process and those that it starts into a file."""
    kept = [os.dup(number) for number in (1, 2)]
    with output.open("w") as file, redirect_stdout(file), redirect_stderr(file):
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def edited(recipe: Path, name: str, **sections: dict[str, Any]) -> Path:
    """A recipe beside `recipe` with some values changed."""
    tree = yaml.safe_load(recipe.read_text())
    for section, values in sections.items():
        tree.setdefault(section, {}).update(values)
    path = recipe.with_name(name)
    path.write_text(yaml.safe_dump(tree))
    return path
