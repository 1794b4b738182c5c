"""What a run has chosen where its recipe says nothing, in its record."""

from typing import Any

from pydantic import ValidationError

from finetune.settings.recipe import OPEN, Recipe
from finetune.settings.sections import Training
from shared.errors import InputError, one_line


def chosen_in(recipe: Recipe) -> dict[str, Any]:
    """The record of a recipe's settings that may be chosen."""
    return recipe.training.model_dump(include={*OPEN})


def with_chosen(recipe: Recipe, chosen: Any, uri: str) -> Recipe:
    """A recipe with recorded values where this one says nothing. Without a record it is the same.

    Raises InputError when the record, of the run at `uri`, has no such values.
    """
    if not chosen:
        return recipe
    try:
        kept = {name: chosen[name] for name in recipe.open}
        training = Training.model_validate(recipe.training.model_dump() | kept)
    except (KeyError, TypeError, ValidationError) as error:
        problem = one_line(error)
        raise InputError(f"run.json of {uri} has no whole choice of settings: {problem}") from None
    return recipe.model_copy(update={"training": training})
