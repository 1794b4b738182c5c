"""The tokens of a run: made by its first process, and read by the first of each node, then by all."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from accelerate.utils import gather_object
from transformers import TrainingArguments

from finetune.model.loading import config_in_cache, vocabulary
from finetune.rows.pair_tokens import to_pair_tokens
from finetune.rows.prefix import split_off_prefix
from finetune.rows.tokens import to_tokens
from finetune.settings.recipe import Recipe
from finetune.storage.folder import Folder
from shared.errors import InputError, PassingError
from shared.recipe_file import RecipeError

if TYPE_CHECKING:
    from datasets import Dataset

T = TypeVar("T")
# A prefix, and rows for training and for the evaluation.
Rows = tuple[list[int], "Dataset", "Dataset | None"]


def in_turns(arguments: TrainingArguments, action: Callable[[], T]) -> T:
    """The result of an action, which the run's first process takes first, then the first of each node.

    All processes raise what it raises in one. Each of the others would end in a traceback otherwise.
    """
    is_first, is_first_of_node = arguments.process_index == 0, arguments.local_process_index == 0
    result: list[T] = []
    for has_turn in (is_first, is_first_of_node and not is_first, not (is_first or is_first_of_node)):
        problem = None
        if has_turn:
            try:
                result.append(action())
            except (InputError, PassingError, RecipeError) as error:
                problem = error
        problems = [problem] if arguments.world_size == 1 else gather_object([problem])
        if end := next(filter(None, problems), None):
            raise end
    return result[0]


def token_rows(
    recipe: Recipe, processor: Any, rows: "Dataset", test_rows: "Dataset | None", beside: Folder | None
) -> Rows:
    """Rows as the trainer takes them: tokens behind the prefix that all share, or pictures as they are."""
    if recipe.data.image is None:
        length, known = recipe.training.max_length, vocabulary(config_in_cache(recipe.model))
        make = to_pair_tokens if recipe.task == "preference" else to_tokens
        rows = make(rows, processor, length, known, beside)
        test_rows = make(test_rows, processor, length, known, beside) if test_rows else None
    if recipe.training.packing:
        return split_off_prefix(rows, test_rows)
    return [], rows, test_rows
