"""Reads the log of a training run: `metrics.jsonl` in its folder (workloads/finetune/run/metrics.py)."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from components.base.bounded_json import parse
from operations.errors import ODD_ANSWER, OperationError
from operations.google.clients import Clients
from operations.status import goodput
from operations.status.goodput import Goodput
from operations.status.run_files import RunFiles, RunInBucket

_ADDRESS: Final = re.compile(r"gs://([^/\s]+)/(\S+)")
# A run writes this file last, so the run is finished (workloads/finetune/storage/checkpoint.py).
_COMPLETE: Final = "COMPLETE.json"
_METRICS: Final = "metrics.jsonl"
# Figures of answers that are shares of the answered rows (workloads/finetune/run/answers.py).
_SHARES: Final = ("execution_accuracy", "overlap", "rouge_l", "exact")

Point = tuple[int, float]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a run, with the figures of its newest answers to held-out rows, if any.

    `before` has the figures of the untrained model's answers. `written` is None if the bucket does not say
    when the file was written. `goodput` is None if the run's records do not say it. `not_good` says why a
    finished run is not good, else it is empty.
    """

    run: str
    last: Mapping[str, float]
    losses: tuple[Point, ...]
    evaluations: tuple[Point, ...]
    answers: Mapping[str, float]
    before: Mapping[str, float]
    finished: bool
    not_good: str
    written: datetime | None
    goodput: Goodput | None = None

    @property
    def step(self) -> int:
        """The step that was logged last."""
        return int(self.last["step"])

    @property
    def steps(self) -> int | None:
        """The number of all steps, None if the training does not log it."""
        steps = self.last.get("steps")
        return int(steps) if steps and math.isfinite(steps) else None

    def line(self, now: datetime) -> str:
        """The progress in words. It leaves out what the training did not log."""
        parts = [f"step {self.step}" + (f" of {self.steps}" if self.steps else "")]
        parts += [f"loss {self.losses[-1][1]:.4f}"] if self.losses else []
        preferred = self.last.get("reward_accuracy")
        parts += [f"preferred {preferred:.3f}"] if preferred is not None else []
        parts += [self._evaluation()] if self.evaluations else []
        parts += [self._figure(name, value) for name, value in self.answers.items() if name != "step"]
        speed, left = self.last.get("tokens_per_second"), self.last.get("seconds_left")
        parts += [f"{speed:.0f} tokens/s"] if speed is not None else []
        if self.finished:
            parts.append(f"finished, but not good: {self.not_good}" if self.not_good else "finished")
        elif left is not None and math.isfinite(left):
            parts.append(f"{_span(left)} to go")
        if self.written and not self.finished:
            parts.append(f"written {_span((now - self.written).total_seconds())} ago")
        return ", ".join(parts)

    def _evaluation(self) -> str:
        """The newest loss on held-out rows, with that of the untrained model."""
        (first, before), (newest, loss) = self.evaluations[0], self.evaluations[-1]
        text = f"evaluation loss {loss:.4f}"
        if first:
            return text
        return f"{text} (before the training {before:.4f})" if newest else f"{text} before the training"

    def _figure(self, name: str, value: float) -> str:
        """A figure of the answers, with its change since before the training if it is a share of the rows."""
        text = f"{name.replace('_', ' ')} {value:.3g}"
        before = self.before.get(name)
        if before is None or name not in _SHARES:
            return text
        if not self.answers["step"]:
            return f"{text} before the training"
        return f"{text} (before the training {before:.3g}, {value - before:+.3g})"


def read(clients: Clients, outputs: Mapping[str, str]) -> Progress | None:
    """The progress of the run whose file the stack's output `readMetrics` names. None before its first step.

    Raises:
        CallError: When the bucket cannot be read.
        OperationError: When the file is something else.
    """
    files = run_of(clients, outputs)
    return read_run(files) if files else None


def run_of(clients: Clients, outputs: Mapping[str, str]) -> RunInBucket | None:
    """The run that the stack's outputs name, None if nothing of the stack trains."""
    address = _ADDRESS.search(outputs.get("readMetrics", ""))
    if not address:
        return None
    return RunInBucket(clients=clients, bucket=address[1], run=address[2].rpartition("/")[0])


def bucket_of(outputs: Mapping[str, str]) -> str:
    """The bucket of the stack's runs, empty if nothing of the stack trains."""
    address = _ADDRESS.search(outputs.get("readMetrics", ""))
    return address[1] if address else ""


def read_run(files: RunFiles) -> Progress | None:
    """The progress of a run. None before its first step. Raises the errors of `read`."""
    run = files.run
    lines = lines_of(files)
    if not lines:
        return None
    complete = files.read(_COMPLETE)
    try:
        not_good = str(parse(complete or b"{}").get("not_good") or "")
    except ODD_ANSWER:
        raise OperationError(f"{run}: {_COMPLETE} is not what the training writes") from None
    steps = [line for line in lines if "loss" in line]
    return Progress(
        run=run,
        last=(steps or lines)[-1],
        losses=tuple((int(line["step"]), line["loss"]) for line in steps),
        evaluations=tuple((int(line["step"]), line["eval_loss"]) for line in lines if "eval_loss" in line),
        answers=next((line for line in reversed(lines) if "judged" in line), {}),
        before=next((line for line in lines if "judged" in line and not line["step"]), {}),
        finished=complete is not None,
        not_good=not_good,
        written=files.written(_METRICS),
        goodput=goodput.read(files, steps),
    )


def lines_of(files: RunFiles) -> list[dict[str, float]]:
    """The lines of a run's log, each with its step and the figures that it has.

    Raises:
        OperationError: When a line is something else, or the log cannot be read.
    """
    content = (files.read(_METRICS) or b"").strip()
    lines: list[dict[str, float]] = []
    for number, text in enumerate(content.splitlines(), start=1):
        try:
            tree = parse(text).items()
            lines.append({key: float(value) for key, value in tree if isinstance(value, (int, float))})
            int(lines[-1]["step"])  # a number, not missing and not infinite
        except ODD_ANSWER:
            raise OperationError(f"{files.run}: line {number} is not what the training writes") from None
    return lines


def _span(seconds: float) -> str:
    """A length of time for people."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    if hours:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{minutes} min" if minutes else f"{max(int(seconds), 0)} s"
