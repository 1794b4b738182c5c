"""Which stacks a change of files can change."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import yaml

from engine.checkouts import PACKAGES
from engine.project import known_stacks, project_name

# What the program of every stack is made of; the rest of the repository (documentation, tests, the rehearsal,
# the operator's commands) does not reach a stack.
_PROGRAM: Final = ("__main__.py", "Pulumi.yaml", "requirements.txt", *(f"{name}/" for name in PACKAGES))


def scenarios(checkout: Path) -> dict[str, str]:
    """The stacks of a checkout and the scenario that each runs."""
    found: dict[str, str] = {}
    for stack in known_stacks(checkout):
        content = yaml.safe_load((checkout / f"Pulumi.{stack}.yaml").read_text()) or {}
        found[stack] = str((content.get("config") or {}).get(f"{project_name()}:scenario", ""))
    return found


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
        of = {scenario for scenario in known.values() if _is_of(file, scenario)}
        for stack, scenario in known.items():
            shared = file.startswith(_PROGRAM) and not of
            if shared or scenario in of or file == f"Pulumi.{stack}.yaml":
                changed.add(stack)
    return sorted(changed)


def _is_of(file: str, scenario: str) -> bool:
    module = f"stacks/{scenario.replace('-', '_')}.py"
    return file == module or file.startswith(f"workloads/{scenario}/")
