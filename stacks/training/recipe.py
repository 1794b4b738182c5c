"""The recipe of a stack: a shipped file or one of the user's, with the values that the stack changes."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import Field

from stacks.platform import WORKLOADS
from stacks.settings.model import Hint

RECIPE: Final = Hint(values="the name of a shipped recipe, or the path of a recipe file")
RecipeSet = Annotated[
    dict[str, str],
    Field(
        description="Values that replace those of the recipe, by their keys in it. Another value begins "
        "another run.",
    ),
    Hint(values="a map of a recipe's keys and values, such as training.learning_rate: 1e-4"),
]
# Reads a recipe by name or path, with `KEY=VALUE` texts that change values. Raises a ValueError with all
# problems.
LoadRecipe = Callable[[str, Sequence[str]], Any]
# Commands, file names and names of runs contain a recipe's name. A run's name has at most 63 characters, and
# a digest follows the recipe's name in it.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,53}")
_ROOT: Final = WORKLOADS.parent


def name_of(recipe: str) -> str:
    """Name of a recipe, or of its file."""
    return Path(recipe).stem if _is_path(recipe) else recipe


def read_recipe(load: LoadRecipe, recipe: str, values: Mapping[str, str]) -> Any:
    """A recipe by name or path, with some values replaced.

    Raises:
        ValueError: If there is no such recipe, or something in it is wrong.
    """
    place = str(_ROOT / recipe) if _is_path(recipe) else recipe
    try:
        return load(place, [f"{key}={value}" for key, value in values.items()])
    except ValueError:
        # A stack file may name any file of the machine that previews it, and a comment shows the message.
        path = Path(place).resolve()
        if not _is_path(recipe) or not path.exists() or path.is_relative_to(_ROOT.resolve()):
            raise
        what = f"recipe {place} is no recipe, or something in it or in recipeSet is wrong"
        raise ValueError(
            f"{what}; copy it into this folder to see what, which is not told of other files"
        ) from None


def check_name(recipe: str) -> None:
    """Checks the name of a recipe's file.

    Raises:
        ValueError: If names cannot contain it.
    """
    if not _NAME.fullmatch(name_of(recipe)):
        raise ValueError(
            f"{name_of(recipe)!r} becomes part of names; rename the file, with at most 54 letters, digits, "
            "'.', '_' or '-'"
        )


def file_of(recipe: Any, package: Path, name: str) -> dict[str, str]:
    """The text of a recipe that is trained, by its path beside the trainer's package.

    It has every value, defaults included, and no comment: a comment in a recipe, or another recipe, changes
    no run.
    """
    text = yaml.safe_dump(recipe.to_dict(), sort_keys=False, allow_unicode=True)
    return {f"{package.name}/recipes/{name}.yaml": text}


def _is_path(recipe: str) -> bool:
    return "/" in recipe or recipe.endswith((".yaml", ".yml"))
