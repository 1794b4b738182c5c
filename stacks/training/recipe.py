"""The recipe of a stack: a shipped file or one of the user's, with the values that the stack changes."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import yaml
from pydantic import Field, ValidationInfo, field_validator

from stacks.platform import WORKLOADS
from stacks.settings.reader import Hint
from stacks.settings.shared_settings import RunSettings

RECIPE: Final = Hint(values="the name of a shipped recipe, or the path of a recipe file")
# Commands, file names and names of runs contain a recipe's name. A run's name has at most 63 characters, and
# a digest follows the recipe's name in it.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,53}")
_ROOT: Final = WORKLOADS.parent


class RecipeSettings(RunSettings):
    """Settings of every scenario that trains from a recipe.

    Attributes:
        load_recipe: Reads a recipe by name or path, with `KEY=VALUE` texts that change values. It raises a
            ValueError with all problems.
        package: Folder of the trainer's package, which has the recipes in it.
    """

    load_recipe: ClassVar[Callable[[str, Sequence[str]], Any]]
    package: ClassVar[Path]

    recipe_set: Annotated[
        dict[str, str],
        Hint(values="a map of a recipe's keys and values, such as training.learning_rate: 1e-4"),
    ] = Field(
        {},
        description="Values that replace those of the recipe, by their keys in it. Another value begins "
        "another run.",
    )
    recipe: str  # every scenario declares it again, because each workload has its own recipes

    @property
    def recipe_name(self) -> str:
        """Name of the recipe, or of its file."""
        return Path(self.recipe).stem if _is_path(self.recipe) else self.recipe

    @property
    def trained_recipe(self) -> Any:
        """The recipe with the values of this stack in place."""
        return self.recipe_with(self.recipe, self.recipe_set)

    @property
    def shipped_recipe(self) -> Any:
        """The recipe as the pods get it."""
        return self.trained_recipe

    @property
    def recipe_file(self) -> dict[str, str]:
        """The text of the recipe that is trained, by its path beside the trainer's package.

        It has every value, defaults included, and no comment: a comment in a recipe, or another recipe,
        changes no run.
        """
        text = yaml.safe_dump(self.shipped_recipe.to_dict(), sort_keys=False, allow_unicode=True)
        return {f"{self.package.name}/recipes/{self.recipe_name}.yaml": text}

    @classmethod
    def recipe_with(cls, recipe: str, values: Mapping[str, str]) -> Any:
        """A recipe by name or path, with some values replaced.

        Raises:
            ValueError: If there is no such recipe, or something in it is wrong.
        """
        place = str(_ROOT / recipe) if _is_path(recipe) else recipe
        return cls.load_recipe(place, [f"{key}={value}" for key, value in values.items()])

    @field_validator("recipe")
    @classmethod
    def _is_one(cls, recipe: str, info: ValidationInfo) -> str:
        name = Path(recipe).stem if _is_path(recipe) else recipe
        cls.recipe_with(recipe, info.data.get("recipe_set", {}))
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} becomes part of names; rename the file, with at most 54 letters, digits, '.', '_' "
                "or '-'"
            )
        return recipe


def _is_path(recipe: str) -> bool:
    return "/" in recipe or recipe.endswith((".yaml", ".yml"))
