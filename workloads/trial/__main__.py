"""Try a recipe on a CPU, in a minute or two, before any accelerator is asked for.

    python -m trial --recipe gemma-3-1b-emoji

    python -m trial --recipe path/to/recipe.yaml --set training.epochs=2

The trial reads the real configuration, tokenizer, chat template and rows, and no weights. It makes a small
model of the same architecture with random weights. With it, the run's own code loads, answers, trains two
steps, stops, resumes in another process, answers, and publishes. The trial loads what was published, and
compares it with what was trained, and the resumed run with one that had no stop.

A trial cannot see: several processes, GPU kernels, the real weights, memory, speed.

Exit codes: 0 passed, or no trial is possible, which a warning says. 1 a cause that may pass, such as the Hub.
2 the run would fail: the last line says what to change.
"""

import argparse
import sys

from finetune.settings.recipe import load_recipe
from shared.command_line import add_recipe_options
from shared.errors import InputError, PassingError
from shared.exit_codes import Exit
from shared.recipe_file import RecipeError


def main(arguments: list[str] | None = None) -> int:
    """Try a recipe and return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe, options.overrides)
        if options.storage:
            recipe = recipe.in_storage(options.storage)
        # Imported here because torch takes many seconds to import.
        from trial.course import run_trial

        return run_trial(recipe, options.recipe, options.storage, options.run)
    except (InputError, RecipeError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return Exit.BAD_INPUT
    except PassingError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return Exit.FAILED


def make_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m trial", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_recipe_options(parser, "training.epochs=1")
    parser.add_argument(
        "--storage",
        help="gs://BUCKET[/FOLDER] or a local directory of runs. What has passed is recorded there, and not "
        "tried again. By default it is recorded in your cache",
    )
    parser.add_argument(
        "--run", help="name of the run in --storage. A run that has a checkpoint is not tried"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
