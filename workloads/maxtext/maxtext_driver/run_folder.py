"""A run's directory in the mounted bucket: its files, and which of them mark something as complete.

- run.json: recipe, workers, slices and the versions of code and libraries of the first start, and the commits
  of its data and published weights
- checkpoints/N/: Orbax checkpoints. N counts steps from 0. A directory without a suffix is complete
- attempt.json: the newest start, the only one that may publish
- metrics.jsonl: a line per step, readable while the run goes on
- ray/: files of Ray Train
- weights/: published weights in MaxText's form
- rows/: packed tokens of conversations. rows.json is written last
- hugging-face/: the result, in the form that transformers loads
- stop: exists when the driver was told to end and asks the hosts to save
- time.json: the seconds that the run has trained, see shared/time_limit.py
- COMPLETE.json: written last. The run is finished
"""

import errno
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import conversations
import shared
from maxtext_driver.recipe import Recipe
from shared.errors import InputError, one_line
from shared.files import bounded_text, read_json, remove_stale_parts, written_whole
from shared.patience import BUCKET_REMEDY, RETRY_BUDGET
from shared.record import compare, record_problem, versions
from shared.writer import Writer

T = TypeVar("T")

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MARKER = "COMPLETE.json"
RECORD = "run.json"
STOP = "stop"
# Other digits than these are no number to int().
STEP = re.compile("[0-9]{1,15}")
# Libraries that decide what a run computes, or how its checkpoints are written.
LIBRARIES = ("flax", "grain", "jax", "libtpu", "maxtext", "orbax-checkpoint", "ray")
# Keys of a recipe that a later start of a run may change. A checkpoint does not depend on them.
MAY_CHANGE = frozenset(
    {"checkpoint_period", "libtpu_flags", "log_period", "max_num_checkpoints_to_keep", "remat_policy"}
)
# The errors of GCS FUSE for 401 and 403, for a request that took too long, and for other refusals. 404 is
# ENOENT. https://github.com/GoogleCloudPlatform/gcsfuse, internal/fs/wrappers/error_mapping.go
MAY_PASS = (errno.EACCES, errno.ECANCELED, errno.EIO)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a run takes place: the number of worker processes, and the TPU slices or None for CPU.

    Attributes:
        workers: Processes in all slices together.
        topology: Shape of each slice.
        slices: Number of slices of that shape.
    """

    workers: int
    topology: str | None = None
    accelerator: str | None = None
    slices: int = 1

    @property
    def chips(self) -> int:
        """The chips of all slices, or the processes on CPU, each of which is one device."""
        return chips_of(self.topology) * self.slices if self.topology else self.workers


def chips_of(topology: str) -> int:
    """The chips of a topology: 16 for 4x4. Raises InputError for anything but two or three numbers."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", topology):
        raise InputError(f"--topology must be two or three numbers of chips like 4x4, not {topology!r}")
    return prod(map(int, topology.split("x")))


class RunFolder:
    """The directory of one run."""

    def __init__(self, output: Path, run: str, folder: str = ""):
        """Create `folder` in `output` if it is missing. Stacks that share a bucket have a folder each.

        Raises InputError when a directory cannot have the name, or `output` is not a directory.
        """
        if not RUN_NAME.fullmatch(run):
            raise InputError(f"--run must be at most 63 letters, digits, '.', '_' or '-', not {run!r}")
        self.name = run
        self.output = output.resolve() / folder
        self.path = self.output / run
        self.weights, self.exported = self.path / "weights", self.path / "hugging-face"
        self.writer = Writer(self, run)
        if not self.first_access(output.is_dir):
            raise InputError(f"--output {output} is not a directory; mount the bucket there, or create it")
        if folder:
            self.first_access(lambda: self.output.mkdir(exist_ok=True))

    def first_access(self, action: Callable[[], T]) -> T:
        """Run `action`, and wait for a bucket that does not answer yet: rights and identity may be new.

        Raises InputError for files that cannot be used, and PassingError when the time to wait is up.
        """
        try:
            return RETRY_BUDGET.call(
                f"bucket at {self.output}",
                action,
                lambda error: isinstance(error, OSError) and error.errno in MAY_PASS,
                BUCKET_REMEDY,
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path} cannot be used: {one_line(error)}") from error

    def claim(self, recipe: Recipe, placement: Placement) -> None:
        """Record the recipe, the slices and the versions, or compare them with the record.

        Raises InputError as `shared.record.compare` does.
        """
        modules = (__file__, conversations.__file__, shared.__file__)
        packages = [Path(module or "").parent for module in modules]
        wanted = {
            "recipe": recipe.to_dict(),
            "workers": placement.workers,
            "topology": placement.topology,
            "slices": placement.slices,
            "versions": versions(packages, LIBRARIES),
        }
        recorded = self._record()
        remove_stale_parts(self.path.glob("*.part"))
        if recorded:
            # A record of an earlier version does not say that there is one slice.
            compare({"slices": 1, **recorded}, wanted, MAY_CHANGE, f"{self.name} in {self.output}")
            return
        self.path.mkdir(exist_ok=True)
        self.write_text(RECORD, json.dumps(wanted, indent=2))

    def pinned(self, recipe: Recipe) -> Recipe:
        """The claimed recipe at the commits of its sources that the record has, or gets now.

        Raises InputError when there is no such data set or model, or when the Hub refuses it.
        """
        if not recipe.sources:
            return recipe
        from shared.hub import commits

        record = self.first_access(self._record)
        commit_of = commits(recipe.sources, record.get("commits"))
        if "commits" not in record:
            text = json.dumps({**record, "commits": commit_of}, indent=2)
            self.first_access(lambda: self.write_text(RECORD, text))
        return recipe.at(commit_of)

    def _record(self) -> dict[str, Any]:
        record = read_json(self, RECORD)
        if record and (problem := record_problem(record)):
            raise InputError(f"{RECORD} of {self.path} {problem}: restore it, or name another run")
        return record

    def steps_saved(self) -> int:
        """The steps after which the newest complete checkpoint was saved, 0 without one."""
        folder = self.path / "checkpoints"
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        # Orbax writes under a name with a suffix and renames the directory when it is complete.
        return max((int(name) + 1 for name in names if STEP.fullmatch(name)), default=0)

    def read_text(self, name: str) -> str | None:
        """The text of a file of the directory, or None when there is no such file.

        Raises ValueError as `bounded_text` does.
        """
        file = self.path / name
        if not file.exists():
            return None
        with file.open("rb") as stream:
            return bounded_text(stream)

    def write_text(self, name: str, text: str, *, patient: bool = True) -> None:
        """Replace a file of the directory. No reader sees it half written."""
        del patient  # GCS FUSE decides how often it asks the bucket.
        with written_whole(self.path / name) as part:
            part.write_text(text)

    def told_to_stop(self) -> bool:
        """Whether the driver asks the hosts to save and return. False while the bucket does not answer."""
        with suppress(OSError):
            return (self.path / STOP).exists()
        return False

    def finished(self) -> bool:
        """Whether the run has been marked as finished."""
        return (self.path / MARKER).exists()

    def finish(self, steps: int) -> None:
        """Mark the run as finished after `steps`."""
        finished_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.write_text(MARKER, json.dumps({"steps": steps, "finished_at": finished_at}, indent=2))
