"""Compile a recipe and the tutorial's for TPU v6e slices, without a TPU, and check the recipe's limits.

    python -m benchmarks.tpu_compile --recipe llama3-8b --set per_device_batch_size=8
    python -m benchmarks.tpu_compile --recipe llama3-8b --slices 2

Exit codes: 0 within all limits, 1 over a limit or rejected by the compiler, 2 the input is wrong.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.tpu_compile.report import Compiled, Figures, missed, summary, table
from maxtext_driver.__main__ import chips_of
from maxtext_driver.recipe import Recipe, load_recipe
from shared.command_line import add_recipe_options, count
from shared.errors import InputError
from shared.exit_codes import Exit
from shared.recipe_file import RecipeError

TUTORIAL = "llama3-8b-tutorial"
ROOT = Path(__file__).parents[2]
# The compiler runs in another folder.
PYTHONPATH = os.pathsep.join(str(ROOT / path) for path in ("", "workloads", "workloads/maxtext"))


class CompilerError(Exception):
    """The TPU compiler rejects the program. The message is its reason in one line."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        chips = chips_of(options.topology)
        own_name = " ".join((options.recipe, *options.overrides))
        recipes = {own_name: load_recipe(options.recipe, options.overrides), TUTORIAL: load_recipe(TUTORIAL)}
        compiled = []
        for name, recipe in recipes.items():
            place = f"{options.slices} x {chips} chips" if options.slices > 1 else f"{chips} chips"
            print(f"compiling {name} for {place} of v6e, some minutes", file=sys.stderr, flush=True)
            figures = compile_in_process(recipe, chips, options.slices)
            compiled.append(Compiled(name=name, recipe=recipe, figures=figures))
    except (InputError, RecipeError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return Exit.BAD_INPUT
    except CompilerError as error:
        print(f"error: {name} does not compile: {error}", file=sys.stderr, flush=True)
        return Exit.FAILED
    candidate, reference = compiled[0], compiled[-1]
    for line in (*table(candidate, reference), *summary(candidate, reference)):
        print(line)
    problems = missed(candidate, reference)
    for problem in problems:
        print(f"missed: {problem}", file=sys.stderr)
    return Exit.FAILED if problems else Exit.FINISHED


def compile_in_process(recipe: Recipe, chips: int, slices: int = 1) -> Figures:
    """The figures of a recipe on slices of `chips` each.

    Raises CompilerError with the last line of the compiler's output.
    """
    environment = {
        **os.environ,
        **recipe.environment,
        "PYTHONPATH": PYTHONPATH,
        "JAX_PLATFORMS": "cpu",
        # Without a TPU there is no metadata server to ask, and no TPU that the lock would protect.
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "figures.json")
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.tpu_compile.compiler", str(chips), str(slices), str(file)],
            input=json.dumps(recipe.to_dict()),
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise CompilerError(_reason(result.stderr))
        return Figures(**json.loads(file.read_text()))


def _reason(log: str) -> str:
    errors = [line for line in log.splitlines() if re.match(r"[\w.]+(Error|Program|Exit)\b.*: ", line)]
    return " ".join((errors or log.splitlines() or ["no reason given"])[-1].split())[:600]


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tpu_compile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_recipe_options(parser, "per_device_batch_size=8")
    parser.add_argument("--topology", default="4x4", help="chips of a slice as rows x columns (4x4)")
    parser.add_argument("--slices", type=count, default=1, help="number of slices of that shape (1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
