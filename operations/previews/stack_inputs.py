"""Which stacks a change of files can change."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import yaml

from engine.project import project_name

# What the program of every stack is made of; the rest of the repository (documentation, tests, the rehearsal,
# the operator's commands) does not reach a stack.
_PROGRAM: Final = (
    "__main__.py",
    "Pulumi.yaml",
    "requirements.txt",
    "cloud/",
    "components/",
    "stacks/",
    "workloads/",
)


def scenarios(checkout: Path) -> dict[str, str]:
    """The stacks of a checkout and the scenario that each runs."""
    key = f"{project_name()}:scenario"
    found: dict[str, str] = {}
    for path in sorted(checkout.glob("Pulumi.*.yaml")):
        config = (yaml.safe_load(path.read_text()) or {}).get("config") or {}
        found[path.name[len("Pulumi.") : -len(".yaml")]] = str(config.get(key, ""))
    return found


def stacks_removed_by(files: Iterable[str], checkout: Path) -> list[str]:
    """The stacks whose file is among the changed ones and no longer there."""
    gone = [file for file in files if fnmatch(file, "Pulumi.*.yaml") and not (checkout / file).exists()]
    return sorted(file[len("Pulumi.") : -len(".yaml")] for file in gone)


def stacks_changed_by(files: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """The stacks whose inputs are among the files, in the order of their names.

    A stack's file is an input of that stack; a scenario's module and its folder of manifests are inputs of
    the stacks that run it; everything else that the program is made of is an input of every stack.

    Args:
        files: Paths from the root of the repository.
        known: The stacks and their scenarios.
    """
    changed: set[str] = set()
    for file in files:
        changed.update(_stacks_of(file, known))
    return sorted(changed)


def _stacks_of(file: str, known: Mapping[str, str]) -> Iterable[str]:
    for stack, scenario in known.items():
        if file == f"Pulumi.{stack}.yaml":
            return [stack]
        if scenario and _is_of(file, scenario):
            return [other for other, its in known.items() if its == scenario]
    return known if file.startswith(_PROGRAM) else ()


def _is_of(file: str, scenario: str) -> bool:
    module = f"stacks/{scenario.replace('-', '_')}.py"
    return file == module or file.startswith(f"workloads/{scenario}/")
