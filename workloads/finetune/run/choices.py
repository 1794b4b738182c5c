"""What a run chooses where its recipe says nothing, once, for all processes and for every later start."""

from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from conversations.chat_template import ChatTemplate
from conversations.turns import TEXT
from finetune.model.parameters import positions_of, size_of
from finetune.rows.tokens import picture_batch
from finetune.settings.choice import Rows, choice_line, choose
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.errors import InputError, PassingError
from shared.recipe_file import RecipeError

if TYPE_CHECKING:
    from datasets import Dataset

# Rows whose tokens are counted, of text and with pictures.
TEXTS, PICTURES = 1000, 8


def chosen_together(
    recipe: Recipe, names: list[str], run: RunFolder, rows: "Dataset", processor: Any
) -> Recipe:
    """The recipe, with a value for each setting that it leaves open. Call it on every process.

    The first process chooses, unless the run has chosen at an earlier start, and records it. All raise its
    InputError.

    Args:
        recipe: As the model allows it, which decides about packing.
        names: The settings that the user's recipe leaves open.
    """
    state, problem = PartialState(), None
    known = recipe
    if state.is_main_process:
        memory = torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None
        try:
            known = run.with_chosen(recipe)
            if names and known is recipe:
                known = settled(recipe, rows, processor, memory, state.num_processes)
                print(choice_line(names, known.training), flush=True)
                run.keep_chosen(known)
        except (InputError, PassingError, RecipeError) as error:
            problem = error
    known, problem = broadcast_object_list([known, problem])
    if problem:
        raise problem
    return known


def settled(
    recipe: Recipe, rows: "Dataset", processor: Any, memory: float | None = None, processes: int = 1
) -> Recipe:
    """The recipe with a value for each setting that it leaves open.

    Args:
        recipe: As the model allows it.
        rows: Its conversations.
        memory: Bytes of each GPU, None without a limit.
        processes: How many the run has.
    """
    pictures = recipe.data.image is not None
    training = choose(
        recipe.training,
        Rows(count=len(rows), lengths=_lengths(recipe, rows, processor)),
        size_of(recipe, memory, processes) if memory else None,
        positions_of(recipe),
        processes,
        pictures,
    )
    return recipe.model_copy(update={"training": training})


def _lengths(recipe: Recipe, rows: "Dataset", processor: Any) -> list[int]:
    """The numbers of tokens of some rows, which are evenly spread over all."""
    if TEXT in rows[0]:
        return [recipe.training.max_length or 1]
    count = min(len(rows), PICTURES if recipe.data.image else TEXTS)
    some = rows.select([number * len(rows) // count for number in range(count)])
    if recipe.data.image:
        collate = picture_batch(processor)
        return [collate([row])["input_ids"].shape[1] for row in some]
    template = ChatTemplate(processor)
    conversations = (([*row["prompt"], *row["completion"]], row.get("tools")) for row in some)
    return [len(part.tokens) for turns, tools in conversations for part in template.rows(turns, tools)]
