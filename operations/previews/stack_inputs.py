"""Decides which stacks a change of files can change."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

from engine import project
from engine.checkouts import PACKAGES
from engine.project import ROOT, known_stacks, project_name

# The program's files. The rest of the repository (documentation, tests, the rehearsal, the operator's
# commands) does not reach a stack.
_PROGRAM: Final = ("__main__.py", "Pulumi.yaml", "requirements.txt", *(f"{name}/" for name in PACKAGES))


def stack_file(stack: str, checkout: Path = ROOT) -> dict[str, Any]:
    """The committed configuration of a stack by key. The project's own keys have no prefix."""
    values = project.stack_file(stack, checkout)
    return {key.removeprefix(f"{project_name()}:"): value for key, value in values.items()}


def scenarios(checkout: Path = ROOT) -> dict[str, str]:
    """The stacks of a checkout, with the scenario of each."""
    return {stack: str(stack_file(stack, checkout).get("scenario", "")) for stack in known_stacks(checkout)}


def own_places(checkout: Path = ROOT) -> dict[str, set[PurePath]]:
    """The user's files that stack files name, by stack, from the root of the checkout.

    A recipe that is named by path has its files beside it, so its folder counts.
    """
    places: dict[str, set[PurePath]] = {}
    for stack in known_stacks(checkout):
        values = stack_file(stack, checkout)
        recipe, requirements = str(values.get("recipe", "")), values.get("extraRequirements")
        folders = [PurePath(recipe).parent] if recipe.endswith(".yaml") else []
        places[stack] = {*folders, *([PurePath(str(requirements))] if requirements else [])}
    return places


def stacks_changed_by(
    files: Iterable[str], known: Mapping[str, str], own: Mapping[str, Collection[PurePath]] | None = None
) -> list[str]:
    """The stacks whose inputs are among the files, sorted by name.

    A stack's file is an input of that stack. A scenario's module and its folder of manifests are inputs of
    the stacks that run the scenario. A recipe of the user's with the files beside it, and a file of
    requirements, are inputs of the stack that names them. Every other file of the program is an input of
    every stack.

    Args:
        files: Paths from the root of the repository.
        known: Scenarios by stack.
        own: Files and folders of the user's by stack. See `own_places`.
    """
    changed: set[str] = set()
    for file in files:
        of = {scenario for scenario in known.values() if _is_of(file, scenario)}
        shared = file.startswith(_PROGRAM) and not of
        changed |= {
            stack
            for stack, scenario in known.items()
            if shared or scenario in of or file == f"Pulumi.{stack}.yaml"
        }
        places = {PurePath(file), PurePath(file).parent}
        changed |= {stack for stack, named in (own or {}).items() if places.intersection(named)}
    return sorted(changed)


def _is_of(file: str, scenario: str) -> bool:
    module = f"stacks/scenarios/{scenario.replace('-', '_')}.py"
    return file == module or file.startswith(f"workloads/{scenario}/")
