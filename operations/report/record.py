"""Reads what the report shows of a run: its log, its last answers, and how it was started."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from components.base.bounded_json import parse
from operations.errors import ODD_ANSWER, OperationError
from operations.status.metrics import Progress, lines_of, read_run
from operations.status.run_files import RunFiles

# The trainers write these files (storage/checkpoint.py and run/answers.py in workloads/finetune).
_RECORD: Final = "run.json"
_ANSWERS: Final = "answers.jsonl"
# Answers in the report.
_MOST_ANSWERS: Final = 20


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the model answered to a held-out row.

    Args:
        asked: The row's last message to the model. Empty if an earlier version of the trainer wrote the file.
        score: The verdicts with their weights, such as `{"exact": 1.0}`.
    """

    asked: str
    reply: str
    wanted: str
    score: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """All that the report shows.

    Args:
        lines: The lines of `metrics.jsonl`.
        answers: The first answers of the newest evaluation.
        recipe: The recipe as the run began with it.
        origin: What else its `run.json` says, such as `day`, `commits` and `versions`.
    """

    progress: Progress
    lines: tuple[Mapping[str, float], ...]
    answers: tuple[Answer, ...]
    recipe: Mapping[str, Any]
    origin: Mapping[str, Any]


def read(files: RunFiles) -> RunRecord:
    """The record of a run.

    Raises:
        OperationError: When the run has logged no step yet, or a file is not what the trainers write.
    """
    progress = read_run(files)
    if not progress:
        raise OperationError(f"run {files.run} has no step in its log yet; try again when it trains")
    try:
        record = dict(parse(files.read(_RECORD) or b"{}"))
        recipe = dict(record.pop("recipe", None) or {})
    except ODD_ANSWER:
        raise OperationError(f"{files.run}/{_RECORD} is not what the training writes") from None
    return RunRecord(
        progress=progress,
        lines=tuple(lines_of(files)),
        answers=_answers(files),
        recipe=recipe,
        origin=record,
    )


def _answers(files: RunFiles) -> tuple[Answer, ...]:
    rows = (files.read(_ANSWERS) or b"").splitlines()[:_MOST_ANSWERS]
    try:
        return tuple(_answer(parse(row)) for row in rows)
    except ODD_ANSWER:
        raise OperationError(f"{files.run}/{_ANSWERS} is not what the training writes") from None


def _answer(row: Mapping[str, Any]) -> Answer:
    return Answer(
        asked=str(row.get("asked") or ""),
        reply=str(row["reply"]),
        wanted=str(row["wanted"]),
        score={str(name): float(value) for name, value in row["score"].items()},
    )
