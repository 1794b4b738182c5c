"""The record of how a run was started, and which parts of it a later start may change."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shared.errors import InputError, visible
from shared.files import differences

# Names of changed files in one line.
FILES_NAMED = 3
_COMMIT = re.compile("[0-9a-f]{40}")


def versions(packages: Iterable[Path], libraries: Iterable[str]) -> dict[str, str]:
    """Digests of the modules in the folders `packages`, and the versions of `libraries`, by name."""
    digests = {
        file.relative_to(package.parent).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        for package in packages
        for file in sorted(package.rglob("*.py"))
    }
    return digests | {name: installed for name in libraries if (installed := _installed(name))}


def record_problem(record: Mapping[str, Any], sources: Collection[str] | None = None) -> str:
    """What a run.json cannot have from a run, empty if it may be one's. Recipes of any version are right.

    Args:
        sources: The keys that commits may have, by default any. A commit becomes a part of paths.
    """
    commits = record.get("commits") or {}
    versions = record.get("versions") or {}
    tables = (record.get("recipe"), commits, versions)
    if not all(isinstance(table, dict) for table in tables) or type(record.get("workers", 1)) is not int:
        return "is not what a run writes"
    if not all(isinstance(text, str) for text in (record.get("day") or "", *versions.values())):
        return "is not what a run writes"
    for key, commit in commits.items():
        # The user's own files have the form FILE#VERSION.
        own_files = key == "data" and isinstance(commit, str) and "#" in commit
        is_known = sources is None or key in sources
        if not is_known or not (commit is None or own_files or is_commit(commit)):
            return f"names no commit: {key}: {commit!r}"
    return ""


def is_commit(value: object) -> bool:
    """Whether a value is the name of a commit, and so no path and no branch."""
    return isinstance(value, str) and bool(_COMMIT.fullmatch(value))


def compare(
    recorded: Mapping[str, Any],
    wanted: Mapping[str, Any],
    may_change: Collection[str],
    run: str,
    resizes: bool = False,
) -> None:
    """Print one line that says how this start differs from the first start of the run.

    Args:
        recorded: The record of the first start. A record of an earlier version may lack `versions`.
        wanted: The record of this start, by the same keys.
        may_change: Dotted keys and sections of the recipe that no checkpoint depends on.
        run: Name of the run and of its storage, for the messages.
        resizes: Whether the trainer has a setting to go on with another number of workers.

    Raises InputError when anything else of the recipe, or the number of processes, differs: the checkpoints
    hold the state of another order of rows, schedule or model.
    """
    keys = wanted.keys() - {"versions"}
    changed = sorted(
        differences({key: recorded.get(key) for key in keys}, {key: wanted[key] for key in keys})
    )
    refused = [key for key in changed if not any(f"{key}.".startswith(f"{free}.") for free in may_change)]
    if refused:
        remedy = "give this one another name, by the setting run or the option --run"
        if refused == ["workers"] and resizes:
            remedy = f"it had {recorded['workers']}, and the setting resume: resize or --resize takes others"
        raise InputError(f"run {run} was started with another {', '.join(refused)}; {remedy}")
    if other := changed + _other_versions(recorded.get("versions") or wanted["versions"], wanted["versions"]):
        line = f"run {run} goes on with another {', '.join(other)} than it began with"
        print(visible(line), flush=True)


def _other_versions(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    files = [name for name in names if name.endswith(".py")]
    libraries = [
        f"{name} ({before.get(name)}, now {now.get(name)})" for name in names if not name.endswith(".py")
    ]
    if len(files) > FILES_NAMED:
        files = [*files[:FILES_NAMED], f"{len(files) - FILES_NAMED} more files of code"]
    return files + libraries


def _installed(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
