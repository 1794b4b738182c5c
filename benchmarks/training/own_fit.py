"""Computes the memory of a GPU that a step of one recipe takes, and keeps the figures in this checkout.

    python -m benchmarks.training.own_fit --recipe ./my-rows.yaml --set training.batch_size=2

`fit.py` says how. Exit code 2 means that the recipe cannot be trained, with one line that says why.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.training.fit import Row
    from finetune.settings.recipe import Recipe

# Tokens of a row of a recipe without max_length, which trains a preference: a run then chooses no length.
UNKNOWN = 1024


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures of a recipe, and write them beside the recipes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", required=True, help="name of a shipped recipe, or path of a file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="replaces a value of it"
    )
    parser.add_argument("--processes", type=int, default=1, help="GPUs of the run")
    parser.add_argument(
        "--memory-gb", type=int, help="memory of each GPU, by which a run chooses what its recipe leaves open"
    )
    options = parser.parse_args(words)
    # These take many seconds to import. The first one puts the packages of the containers on the path.
    from benchmarks.training import fit
    from shared.errors import InputError
    from shared.recipe_file import RecipeError

    try:
        compute(fit.load_recipe(options.recipe, options.set), options)
    except (InputError, RecipeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def compute(recipe: "Recipe", options: argparse.Namespace) -> None:
    """Print the figures of a recipe, and write them to a file that git ignores."""
    from benchmarks.training.fit import point_of
    from benchmarks.training.published import config_of, is_published
    from finetune.model.first_adapter import with_first_adapter
    from finetune.model.loading import check_model, config_in_cache
    from finetune.settings.recipe import OWN_FIT
    from shared.errors import InputError

    if recipe.liger:
        raise InputError(
            "training.trl: only a GPU can tell what a step with liger's kernels takes; without them: "
            "--set training.trl.use_liger_kernel=false"
        )
    digest, length = recipe.fit_digest(options.memory_gb), recipe.training.max_length
    if recipe.open:
        recipe = chosen(recipe, options.memory_gb, options.processes)
    if is_published(recipe.model.name):
        config = config_of(recipe.model.name)
    else:
        check_model(recipe.model)
        config = config_in_cache(recipe.model)
    # Without shards each of several processes takes the same. The figure of an adapter alone includes what
    # several processes take more than one.
    without_shards = 1 if recipe.lora else min(options.processes, 2)
    processes = options.processes if recipe.training.sharding == "fsdp2" else without_shards
    if recipe.data.image and not hasattr(config, "mm_tokens_per_image"):
        raise InputError(
            f"pictures of {recipe.model.name} have an unknown number of tokens: only Gemma 3 is known"
        )
    step = rows_of_a_step(with_first_adapter(recipe))
    point = point_of(options.recipe, step, config, row_of(recipe), processes)
    figures = json.loads(OWN_FIT.read_text()) if OWN_FIT.exists() else {}
    # A stack looks for the length that the recipe says.
    figures[f"{options.recipe} {digest} {length}"] = {
        "digest": digest,
        "points": [point | {"max_length": length}],
    }
    OWN_FIT.write_text(json.dumps(figures, indent=1) + "\n")


def rows_of_a_step(recipe: "Recipe") -> "Recipe":
    """The recipe, or for pairs of replies one with as many rows a step as a step of pairs has replies.

    The reference answers without activations that are kept, while the step's own are there.
    """
    if recipe.task == "fine-tune":
        return recipe
    training = recipe.training.model_copy(update={"batch_size": 2 * recipe.training.batch})
    return recipe.model_copy(update={"task": "fine-tune", "training": training})


def chosen(recipe: "Recipe", memory_gb: int | None, processes: int) -> "Recipe":
    """The recipe with what a run on such GPUs chooses, as the run does it, which is printed."""
    from finetune.model.loading import as_model_allows, fetch_model, load_processor
    from finetune.rows.data import load_conversations, settle_for
    from finetune.run.choices import settled
    from finetune.settings.choice import choice_line
    from shared.model_files import DESCRIPTIONS

    allowed = as_model_allows(recipe)
    files = fetch_model(allowed.model, DESCRIPTIONS)
    processor = load_processor(
        str(files), allowed.data.image is not None, template=allowed.model.chat_template
    )
    rows, _ = load_conversations(allowed.data, allowed.training.rows_seed)
    settle_for(allowed.data, rows, processor)
    memory = memory_gb * 1e9 if memory_gb else None
    whole = settled(allowed, rows, processor, memory, processes)
    print(choice_line(recipe.open, whole.training))
    return whole


def row_of(recipe: "Recipe") -> "Row":
    """A row as long as a row of the recipe may be. In packs the length of a row hardly matters."""
    from benchmarks.training.fit import Row

    if recipe.data.image:
        return Row(0, 100, 256)
    if recipe.training.packing:
        return Row(20, 50, 30)
    length = recipe.training.max_length or UNKNOWN
    return Row(0, length // 2, length - length // 2)


if __name__ == "__main__":
    sys.exit(main())
