"""How much of a run's time went into steps that are kept, from the run's own records."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from components.base.bounded_json import parse
from operations.errors import ODD_ANSWER, OperationError
from operations.status.run_files import RunFiles

# Seconds that the run has trained, all its tries together (workloads/shared/time_limit.py).
_TIME: Final = "time.json"
# How the run was started (finetune/storage/checkpoint.py, maxtext_driver/run_folder.py in workloads/).
_RECORD: Final = "run.json"
# More than any run has.
_MOST_ACCELERATORS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """The time of a run, in seconds.

    Args:
        kept_seconds: Time of the steps that are kept. Steps after the newest checkpoint of a try that was
            killed are trained again, and count once.
        trained_seconds: Time from the start of each try to its end. It includes loading the model, saving and
            evaluating, and not the wait for nodes.
        accelerators: GPUs or TPU chips that the run began with.
    """

    kept_seconds: float
    trained_seconds: float
    accelerators: int

    @property
    def line(self) -> str:
        """The goodput in words."""
        share, hours = self.kept_seconds / self.trained_seconds, self.trained_seconds / 3600
        paid = hours * self.accelerators
        return (
            f"goodput {share:.0%}: of {hours:.2f} hours, {paid:.1f} accelerator-hours, "
            f"{self.kept_seconds / 3600:.2f} hours are steps that are kept"
        )


def read(files: RunFiles, lines: Iterable[Mapping[str, float]]) -> Goodput | None:
    """The goodput of a run. None if an earlier version of the trainers began it, or if it has just begun.

    Args:
        lines: The lines of its `metrics.jsonl`.

    Raises:
        CallError: When the bucket cannot be read.
        OperationError: When a record is not what the trainers write.
    """
    try:
        return _read(files, lines)
    except ODD_ANSWER:
        raise OperationError(f"{files.run}: {_TIME} or {_RECORD} is not what the training writes") from None


def _read(files: RunFiles, lines: Iterable[Mapping[str, float]]) -> Goodput | None:
    kept = sum(line["seconds"] for line in lines if "seconds" in line and math.isfinite(line["seconds"]))
    trained = trained_seconds(files)
    if not kept or not trained:
        return None
    record = _json(files, _RECORD)
    accelerators = int(record.get("workers") or 1)
    # A worker of MaxText is a host of a TPU slice. Earlier versions recorded no slices and had one.
    if topology := record.get("topology"):
        accelerators = math.prod(map(int, str(topology).split("x"))) * int(record.get("slices") or 1)
    if not 0 < accelerators <= _MOST_ACCELERATORS:
        raise ValueError("no number of accelerators")
    # The time is written once a minute.
    return Goodput(kept_seconds=kept, trained_seconds=max(trained, kept), accelerators=accelerators)


def trained_seconds(files: RunFiles) -> float:
    """Seconds that a run has trained, all its tries together. Raises the errors of `read`."""
    try:
        seconds = float(_json(files, _TIME).get("seconds") or 0)
    except ODD_ANSWER:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise OperationError(f"{files.run}/{_TIME} is not what the training writes")
    return seconds


def _json(files: RunFiles, name: str) -> dict[str, Any]:
    try:
        return dict(parse(files.read(name) or b"{}"))
    except ODD_ANSWER:
        raise OperationError(f"{files.run}/{name} is not what the training writes") from None
