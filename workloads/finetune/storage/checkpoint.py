"""A run's directory: its files, and which of them mark something as complete.

- run.json: the recipe, the number of workers, the day, and the versions of code and libraries of the first
  start, and the commits of its model and data
- checkpoint-00000020-TIME/: a checkpoint, of one process or with a part of each. Its COMPLETE.json is written
  last and lists the files with sizes and checksums. TIME is in UTC
- best-00000020/: adapter or model of the best evaluation so far, marked in the same way
- attempt.json: the newest start, the only one that may publish
- tokens/: the tokens of its rows, until it is finished. NAME.json is the mark of NAME.arrow
- before.json: the figures of the untrained model's answers
- answers.jsonl: the newest answers to held-out rows, if the recipe asks for some
- metrics.jsonl: a line per logged step, readable while the run goes on
- tensorboard/: TensorBoard's events, if the recipe asks for them
- adapter/: the final adapter, if the recipe has one
- model/: the trained model: the base model with the adapter in it, if the recipe asks for it, or all weights
- check.json: replies with the probabilities that the result gives them, for `operations verify`
- COMPLETE.json: written when adapter/ and model/ are whole. The run is finished
- pushed.json: the commit on the Hub, if the recipe asks for a push after that

A checkpoint directory is written once and never changed. The time in its name makes a second attempt at a
step write another directory.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import conversations
import finetune
import shared
from finetune.settings.recipe import Recipe, with_defaults
from finetune.storage import data_only
from finetune.storage.adapter_files import SOURCES, adapter_version
from finetune.storage.chosen import chosen_in, with_chosen
from finetune.storage.data_files import version
from finetune.storage.folder import MARKER, Folder
from shared.errors import InputError, PassingError, one_line, visible
from shared.files import FileSum, file_sum, read_json, size_of, write_or_say
from shared.record import compare, record_problem, versions
from shared.writer import Writer

CHECKPOINT_NAME = re.compile(r"checkpoint-(\d{8})-\d{8}T\d{12}")
TOKENS = "tokens"
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Files of a checkpoint that loading its adapter does not need.
NOT_OF_ADAPTER = re.compile(
    r"(optimizer|scheduler)\.pt|rng_state.*\.pth|training_args\.bin|trainer_state\.json|COMPLETE\.json"
)
# Libraries that decide what a run computes, or how its checkpoints are written.
LIBRARIES = ("accelerate", "bitsandbytes", "datasets", "peft", "ray", "torch", "transformers", "trl")
# Keys and sections of a recipe that a later start of a run may change. A checkpoint does not depend on them.
MAY_CHANGE = frozenset(
    {
        "evaluation",
        "training.checkpoints_to_keep",
        "training.hub_model_id",
        "training.hub_private_repo",
        "training.loader_processes",
        "training.log_every_steps",
        "training.push_to_hub",
        "training.report_to",
        "training.result",
        "training.save_every_steps",
    }
)


@dataclass(frozen=True)
class SavedCheckpoint:
    """A complete checkpoint: the name of its directory, and the optimizer step after which it was saved."""

    name: str
    step: int


class RunFolder:
    """The directory of one run. All drivers use it in the same way."""

    def __init__(self, storage: str, run: str):
        """Raises InputError when a directory cannot have the name."""
        if not RUN_NAME.fullmatch(run):
            raise InputError(f"--run must be at most 63 letters, digits, '.', '_' or '-', not {run!r}")
        self.name = run
        self.folder = Folder(f"{storage.rstrip('/')}/{run}")
        self.storage = self.folder.uri.removesuffix(f"/{run}")
        self.writer = Writer(self.folder, run)

    def claim(self, recipe: Recipe, workers: int, resize: bool = False, batch_for: int | None = None) -> bool:
        """Record the recipe, the number of workers and the versions, or compare them with the record.

        With `resize` the number of workers may be another one, for which `resized` changes the recipe. See
        there for `batch_for`.

        Returns True when the run is finished. Raises InputError when the storage cannot be written, and when
        `shared.record.compare` does.
        """
        packages = [Path(module.__file__ or "").parent for module in (finetune, conversations, shared)]
        recorded = self._record()
        wanted = {
            "recipe": recipe.to_dict(),
            "workers": workers,
            "versions": versions(packages, LIBRARIES),
            # A run that an earlier version began has none.
            "day": recorded.get("day") if recorded else datetime.now(UTC).date().isoformat(),
        }
        self.folder.remove_stale_parts()
        if recorded is None or resize:
            self.resized(recipe, workers, batch_for)
        if recorded is None:
            self._write_record(wanted)
            return False
        if resize:
            wanted["workers"] = recorded["workers"]
        compare(recorded, wanted, MAY_CHANGE, f"{self.name} in {self.folder.uri}", resizes=True)
        finished = self.finished()
        if finished and recipe.training.result not in finished:
            raise InputError(
                f"run {self.name} is finished with its adapter alone: `python -m finetune merge "
                f"{self.folder.uri} FOLDER` writes the model"
            )
        return bool(finished)

    def resized(self, recipe: Recipe, workers: int, batch_for: int | None = None) -> Recipe:
        """The recipe for another number of workers than its batch is meant for: a step has as many rows.

        The batch is meant for `batch_for` workers, by default for those with which the run began.

        Raises InputError when these workers cannot share the rows of a step equally, or cannot go on from
        the checkpoints.
        """
        before = int((self._record() or {}).get("workers") or workers)
        how = f"run {self.name} began with {before} processes and cannot go on with {workers}"
        if recipe.training.sharding != "none" and (before == 1) != (workers == 1):
            raise InputError(f"{how}: with training.sharding one process and several save in different forms")
        try:
            return self.with_chosen(recipe).shared_by(workers, batch_for or before)
        except ValueError as error:
            raise InputError(str(error) if before == workers else f"{how}: {error}") from None

    def sizes(self, workers: int) -> str:
        """A further line for a start with another number of workers than the run began with."""
        before = int((self._record() or {}).get("workers") or workers)
        if before == workers:
            return ""
        return (
            f"\nrun {self.name} began with {before} processes and goes on with {workers}: a step has the "
            "same rows, except the last one of an epoch, and losses may differ from here"
        )

    def pinned(self, recipe: Recipe) -> Recipe:
        """The claimed recipe at the commits of model and data set that the record has, or gets now.

        The user's own files have a version in place of a commit. Raises InputError when there is no such
        model or data set, or when the Hub refuses one.
        """
        from shared.hub import commits

        record = self._record() or {}
        commit_of = commits(recipe.sources, recorded := record.get("commits") or {})
        if recipe.data.files:
            commit_of["data"] = recorded.get("data") or ", ".join(map(version, recipe.data.files))
        if recipe.model.adapter and "adapter" not in commit_of:
            commit_of["adapter"] = recorded.get("adapter") or adapter_version(recipe.model.adapter)
        pinned = recipe.at(commit_of)
        if "commits" not in record:
            if self.newest_checkpoint():
                print(f"run {self.name} has trained without a record of commits: it keeps those of now")
            self._write_record({**record, "commits": pinned.commits})
        return pinned

    def with_chosen(self, recipe: Recipe) -> Recipe:
        """The recipe with what the run has chosen where it says nothing."""
        return with_chosen(recipe, (self._record() or {}).get("chosen"), self.folder.uri)

    def keep_chosen(self, recipe: Recipe) -> None:
        """Record what the run has chosen where its recipe says nothing."""
        self._write_record({**(self._record() or {}), "chosen": chosen_in(recipe)})

    def day(self) -> str | None:
        """The day on which the run began, in UTC, or None if it is not recorded."""
        return (self._record() or {}).get("day")

    def finished(self) -> dict[str, Any]:
        """The content of the run's own COMPLETE.json, empty until it exists."""
        return self.folder.first_access(lambda: read_json(self.folder, MARKER, texts=("not_good",)))

    def before(self) -> dict[str, float] | None:
        """The figures of the untrained model's answers, or None if there are none."""
        figures = self.folder.first_access(lambda: read_json(self.folder, "before.json"))
        if all(isinstance(figure, int | float) for figure in figures.values()):
            return figures or None
        raise InputError(f"before.json of {self.folder.uri} has no figures: delete it")

    def keep_before(self, figures: dict[str, float]) -> None:
        """Keep the figures of the untrained model's answers."""
        write_or_say(self.folder, "before.json", json.dumps(figures))

    def gain(self) -> list[str]:
        """Lines for people: a finished run's answers, before and after the training."""
        try:
            return data_only.gains(self.finished())
        except (ValueError, TypeError, LookupError, AttributeError):
            raise InputError(f"{MARKER} of {self.folder.uri} is damaged: restore it") from None

    def ending(self, result: str, already: str = "") -> str:
        """A line for people: the run is finished, where its result is, and what is not good about it."""
        problem = self.finished().get("not_good")
        line = f"run {self.name} is finished{already}, its {result} is in {self.folder.uri}/{result}"
        return visible(f"{line}, but it is not good: {problem}" if problem else line)

    def fetch_result(self, result: str, target: Path) -> None:
        """Download the published adapter or model. Raises InputError when it is missing or not whole."""
        published = self.finished().get(result)
        if not published or not isinstance(published, dict):
            raise InputError(f"{self.folder.uri} is no finished run, or has no {result}")
        present = self.folder.first_access(lambda: self.folder.sizes(result))
        for name, size in published.items():
            outside = "/" in name or not data_only.stays_inside(name)
            if outside or self.folder.leads_outside(f"{result}/{name}"):
                raise InputError(f"{MARKER} of {self.folder.uri} names a file outside of {result}: {name!r}")
            if type(size) is not int or present.get(name) != size:
                raise InputError(f"{result}/{name} in {self.folder.uri} is not what was published")
            fetch = partial(self.folder.download, f"{result}/{name}", target / name, size)
            self.folder.first_access(fetch)

    def recorded_recipe(self) -> Recipe:
        """The recipe of a run that has begun, at its commits. Raises InputError for another folder."""
        if not (record := self._record()):
            raise InputError(f"{self.folder.uri} is no folder of a run: it has no run.json")
        try:
            return Recipe.model_validate(record["recipe"]).at(record.get("commits") or {})
        except ValidationError as error:
            raise InputError(f"run.json of {self.folder.uri} has no recipe: {one_line(error)}") from None

    def at_recorded_commits(self, recipe: Recipe) -> Recipe:
        """The recipe at the commits that the run has recorded, if it has begun."""
        return recipe.at((self._record() or {}).get("commits") or {})

    def _record(self) -> dict[str, Any] | None:
        record = self.folder.first_access(lambda: read_json(self.folder, "run.json"))
        if not record:
            return None
        if problem := record_problem(record, SOURCES):
            raise InputError(f"run.json of {self.folder.uri} {problem}: restore it, or name another run")
        return {**record, "recipe": with_defaults(record["recipe"])}

    def _write_record(self, record: dict[str, Any]) -> None:
        self.folder.first_access(lambda: self.folder.write_text("run.json", json.dumps(record, indent=2)))

    def newest_checkpoint(self) -> SavedCheckpoint | None:
        """The complete checkpoint of the highest step, or None. A complete one has a COMPLETE.json."""
        complete = self._complete_checkpoints()
        return complete[-1] if complete else None

    def save_checkpoint(self, source: Path, name: str) -> None:
        """Upload a local checkpoint, its marker last."""
        self.complete_checkpoint(name, self.upload_to_checkpoint(source, name))

    def upload_to_checkpoint(self, source: Path, name: str) -> dict[str, FileSum]:
        """Upload one process's part of a checkpoint. Returns its files with their sizes and checksums."""
        return self._uploaded([path for path in sorted(source.rglob("*")) if path.is_file()], source, name)

    def save_best(self, directory: Path, step: int) -> None:
        """Upload a local checkpoint's adapter or model, the best so far. The previous best stays for now."""
        best = best_at(step).name
        self.complete_checkpoint(best, self._uploaded(adapter_in(directory), directory, best))

    def prune_best(self, step: int) -> None:
        """Delete the best results of other steps. A checkpoint names that of `step` by now."""
        names = {path.split("/")[0] for path in self.folder.sizes()}
        for name in names - {best_at(step).name}:
            if name.startswith("best-"):
                self.folder.delete(name)

    def _uploaded(self, paths: Iterable[Path], source: Path, name: str) -> dict[str, FileSum]:
        files = {str(path.relative_to(source)): path for path in paths}
        for file, path in files.items():
            self.folder.upload(path, f"{name}/{file}")
        return {file: file_sum(path) for file, path in files.items()}

    def complete_checkpoint(self, name: str, files: dict[str, FileSum]) -> None:
        """Write COMPLETE.json of a checkpoint, after all its files have been uploaded."""
        self.writer.check()
        self.folder.write_text(f"{name}/{MARKER}", json.dumps({"files": files}))

    def fetch_newest(self, target: Path) -> SavedCheckpoint | None:
        """Download the newest checkpoint whose files are as they were saved. None when none was saved.

        Prints which checkpoints are damaged and takes their mark away. Raises InputError when all are.
        """
        damaged: dict[str, str] = {}
        for checkpoint in reversed(self._complete_checkpoints()):
            try:
                self.fetch_checkpoint(checkpoint, target)
            except PassingError as error:
                damaged[checkpoint.name] = str(error)
                continue
            for name, reason in damaged.items():
                print(f"{reason}; the run goes on from {checkpoint.name}", flush=True)
                self.folder.write_text(f"{name}/{MARKER}", json.dumps({"damaged": reason}))
            return checkpoint
        if damaged:
            reasons = "; ".join(damaged.values())
            raise InputError(f"{reasons}; no other is whole: restore one, or give the run another --run")
        return None

    def fetch_checkpoint(self, checkpoint: SavedCheckpoint, target: Path) -> Path:
        """Download a checkpoint into `target`, unless all its files are there already.

        Raises PassingError when a file has other bytes than were saved, or is none that a run saves.
        """
        destination = target / checkpoint.name
        if destination.is_dir():
            return destination
        partial = target / f"{checkpoint.name}.part"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            listed = self._listed(checkpoint.name)
            data_only.check_names(listed)
            for file, saved in listed.items():
                self.folder.download(f"{checkpoint.name}/{file}", partial / file, size_of(saved))
                if isinstance(saved, dict) and saved != file_sum(partial / file):
                    raise PassingError(
                        f"{checkpoint.name} is damaged: {file} has other bytes than were saved"
                    )
            data_only.check_files(partial)
            partial.rename(destination)
        except ValueError as error:
            raise PassingError(f"{checkpoint.name} is damaged: {one_line(error)}") from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return destination

    def prune_checkpoints(self, keep: int) -> None:
        """Delete all checkpoints but the newest `keep`, and unfinished uploads before these."""
        kept = [checkpoint.name for checkpoint in self._complete_checkpoints()[-keep:]]
        for name in {path.split("/")[0] for path in self.folder.sizes()}:
            if CHECKPOINT_NAME.fullmatch(name) and name not in kept and name < max(kept, default=""):
                self.folder.delete(name)

    def upload_result(self, name: str, paths: Sequence[Path]) -> dict[str, int]:
        """Upload the local files of a result, adapter or model. Returns their sizes."""
        self.writer.check()
        # An earlier attempt may have left other files.
        self.folder.delete(name)
        for path in paths:
            self.folder.upload(path, f"{name}/{path.name}")
        return {path.name: path.stat().st_size for path in paths}

    def finish(self, sizes: Mapping[str, Mapping[str, int]], summary: dict[str, Any]) -> None:
        """Mark the run as finished, and delete its tokens. `sizes` has the files of each result."""
        finished_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.writer.check()
        self.folder.write_text(MARKER, json.dumps({**summary, **sizes, "finished_at": finished_at}, indent=2))
        self.folder.delete(TOKENS)

    def _complete_checkpoints(self) -> list[SavedCheckpoint]:
        present = self.folder.sizes()
        names = sorted({path.split("/")[0] for path in present if path.endswith(f"/{MARKER}")})
        checkpoints = []
        for name in names:
            if (match := CHECKPOINT_NAME.fullmatch(name)) and self._is_whole(name, present):
                checkpoints.append(SavedCheckpoint(name, int(match.group(1))))
        return checkpoints

    def _is_whole(self, name: str, present: dict[str, int]) -> bool:
        try:
            listed = self._listed(name)
        except ValueError:
            return False
        return all(present.get(f"{name}/{file}") == size_of(saved) for file, saved in listed.items())

    def _listed(self, name: str) -> dict[str, Any]:
        return data_only.read_list(self.folder.read_text(f"{name}/{MARKER}"))


def adapter_in(checkpoint: Path) -> list[Path]:
    """The files of a local checkpoint that loading its adapter needs."""
    files = [path for path in sorted(checkpoint.iterdir()) if path.is_file()]
    return [path for path in files if not NOT_OF_ADAPTER.fullmatch(path.name)]


def best_at(step: int) -> SavedCheckpoint:
    """The best result so far, supposing that `step` is the best."""
    return SavedCheckpoint(f"best-{step:08d}", step)


def checkpoint_name(step: int) -> str:
    """The name of a new checkpoint's directory. Names sort by step, then by time."""
    return f"checkpoint-{step:08d}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
