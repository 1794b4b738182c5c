"""Stages in processes of their own, forked from one that has imported the libraries and nothing else."""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from shared.errors import InputError, PassingError, one_line
from shared.exit_codes import Exit
from shared.recipe_file import RecipeError
from shared.weather import owner
from trial.small_model import NoTrial

T = TypeVar("T")
# Files of the package that trains, and what a run does in them. The innermost that an error passed decides.
READ, STEP = "read the rows", "train a step"
PLACES = {
    "answers": "answers",
    "sql": "answers",
    "merge": "publish",
    "result": "publish",
    "quantized": "publish",
    "stops": "publish",
    "checkpoint": "save and resume",
    "callbacks": "save and resume",
    "data": READ,
    "dry_run": READ,
    "conversations": READ,
    "tokens": READ,
    "texts": READ,
    "prefix": READ,
    "chat_template": READ,
    "loading": "load the model",
    "families": "load the model",
    "small_copy": "load the model",
    "trl_settings": "set up the trainer",
}


# In place of a stage's result, when its process was killed.
_NOTHING = "nothing came back"


class Kind(Enum):
    """Why a stage ended."""

    INPUT = "input"
    PASSING = "passing"
    NO_TRIAL = "no trial"
    OTHER = "other"


class StageError(Exception):
    """A stage ended with an error.

    Attributes:
        place: What the run was doing, if the error tells.
        trace: The traceback, for an error that nobody has foreseen.
    """

    def __init__(self, kind: Kind, text: str, place: str | None = None, trace: str = "") -> None:
        super().__init__(text)
        self.kind, self.place, self.trace = kind, place, trace


@dataclass(frozen=True)
class _Failure:
    kind: Kind
    text: str
    place: str | None
    trace: str


def in_process(stage: Callable[[], T], log: Path) -> T:
    """Run a stage in a fork, with its output in the file `log`, and return its result.

    Raises:
        StageError: If it fails, or is killed.
        SystemExit: If this process is asked to end meanwhile. The fork ends first.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(stage, writer, log))
    process.start()
    writer.close()
    with _ended_with_this(process):
        try:
            outcome = reader.recv()
        except EOFError:
            outcome = _NOTHING
        process.join()
    if outcome == _NOTHING:
        code = process.exitcode or 0
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise StageError(
            Kind.NO_TRIAL, f"its process ended with {reason}; a trial takes 1 to 2 GiB of memory"
        )
    if isinstance(outcome, _Failure):
        raise StageError(outcome.kind, outcome.text, outcome.place, outcome.trace)
    return outcome


@contextmanager
def _ended_with_this(process: Any) -> Generator[None]:
    """Kill the fork when this process is asked to end."""

    def end(*_: object) -> None:
        process.kill()
        raise SystemExit(Exit.INTERRUPTED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        process.kill()


def _run(stage: Callable[[], Any], writer: Any, log: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with log.open("a") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    # Those of the parent may be a terminal's or a test's.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    try:
        outcome: Any = stage()
    # What a library raises is the finding, also what is no Exception.
    except BaseException as error:
        outcome = _failure(error)
    writer.send(outcome)
    writer.close()
    # Threads of the libraries need not end first.
    sys.stdout.flush()
    os._exit(0)


def _failure(error: BaseException) -> _Failure:
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, InputError | RecipeError):
        # A line of ours for what a library raised.
        return _Failure(Kind.INPUT, str(error), None, trace if "traceback above" in str(error) else "")
    if isinstance(error, NoTrial):
        return _Failure(Kind.NO_TRIAL, str(error), None, "")
    if isinstance(error, PassingError):
        return _Failure(Kind.PASSING, str(error), None, "")
    text = f"{type(error).__name__}: {one_line(error)}"
    if who := owner(error):
        return _Failure(Kind.PASSING, f"{text} (from {who})", None, trace)
    return _Failure(Kind.OTHER, text, _place(error), trace)


def _place(error: BaseException) -> str | None:
    """What the run was doing, by the innermost module of the package that trains."""
    frames = traceback.extract_tb(error.__traceback__)
    files = [Path(frame.filename) for frame in frames]
    own = [file.stem for file in files if "finetune" in (file.parent.name, file.parent.parent.name)]
    place = PLACES.get(own[-1], STEP) if own else None
    # In a step rows are only put together.
    in_step = any(frame.name == "_inner_training_loop" for frame in frames)
    return STEP if in_step and place == READ else place
