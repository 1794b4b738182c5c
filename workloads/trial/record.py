"""The record of a trial that passed, so that the same one is not made again."""

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import conversations
import finetune
import shared
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import LIBRARIES, RunFolder
from finetune.storage.data_files import version
from finetune.storage.folder import Folder
from shared.files import read_json
from shared.record import versions

FOLDER = "trials"


def digest(recipe: Recipe) -> str:
    """Digest of everything that a trial depends on. The recipe is at its commits.

    Names of data files stand for their content, and so do directories for that of their files but weights.
    """
    packages = [Path(module.__file__ or "").parent for module in (finetune, conversations, shared)]
    depends: dict[str, Any] = {
        "recipe": recipe.to_dict(),
        "files": [version(file) for file in recipe.data.files],
        "folders": [_content(Path(source.name)) for source in (recipe.model, recipe.data)],
        "versions": versions([*packages, Path(__file__).parent], (*LIBRARIES, "tokenizers")),
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:16]


def _content(folder: Path) -> dict[str, str]:
    """Digests of the files in a folder of this machine. Weights count by their size: a trial reads none."""
    if not folder.name or not folder.is_dir():
        return {}
    return {
        str(file.relative_to(folder)): _file_digest(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _file_digest(file: Path) -> str:
    if file.suffix == ".safetensors":
        return str(file.stat().st_size)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def records(storage: str | None) -> Folder:
    """Where trials are recorded: in a run's storage, or else in this user's cache."""
    if storage:
        return Folder(f"{storage.rstrip('/')}/{FOLDER}")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Folder(str(Path(cache, "finetune", FOLDER)))


def progress(storage: str, run: str) -> str | None:
    """Words for how far a run has come, or None if it has no complete checkpoint."""
    folder = RunFolder(storage, run)
    if folder.finished():
        return "is finished"
    newest = folder.folder.first_access(folder.newest_checkpoint)
    return f"has a checkpoint of step {newest.step}" if newest else None


def passed_at(folder: Folder, trial: str) -> str | None:
    """When a trial of this digest passed, or None."""
    passed = folder.first_access(lambda: read_json(folder, f"{trial}.json", texts=("passed_at",)))
    return passed.get("passed_at")


def keep(folder: Folder, trial: str, recipe: str) -> None:
    """Record that a trial has passed."""
    passed = {"recipe": recipe, "passed_at": datetime.now(UTC).isoformat(timespec="seconds")}
    folder.first_access(lambda: folder.write_text(f"{trial}.json", json.dumps(passed, indent=2)))
