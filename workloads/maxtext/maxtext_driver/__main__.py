"""Command line of the MaxText driver.

    python -m maxtext_driver --recipe llama3-8b --output /data --run RUN --workers 4 \\
        --topology 4x4 --accelerator TPU-V6E

    python -m maxtext_driver --recipe llama3-8b --output /data --run RUN --workers 8 \\
        --topology 4x4 --slices 2

    python -m maxtext_driver --recipe llama3-8b --topology 4x4 --dry-run

    python -m maxtext_driver --recipe my.yaml --set steps=20 --output runs --run RUN --workers 2

Without --topology the workers train on CPU. The same command again resumes from the newest checkpoint. A
finished run is left alone. Exit codes: shared/exit_codes.py.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from maxtext_driver.recipe import load_recipe
from maxtext_driver.run_folder import Placement, RunFolder, chips_of
from shared.command_line import add_common_options, count
from shared.errors import InputError, PassingError, one_line
from shared.exit_codes import FINAL, Exit
from shared.ray_job import stop_own_job
from shared.recipe_file import RecipeError
from shared.time_limit import Limits

# A plan needs no TPU. It is shown without the libraries' notices.
ENVIRONMENT_OF_DRY_RUN = {
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not options.dry_run and not (options.output and options.run and options.workers):
        parser.error("--output, --run and --workers are required, except with --dry-run")
    try:
        code = _run(options, sys.argv[1:] if arguments is None else arguments)
    except (InputError, RecipeError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        code = Exit.BAD_INPUT
    except (PassingError, OSError) as error:
        message = str(error) if isinstance(error, PassingError) else one_line(error)
        print(f"error: {message}", file=sys.stderr, flush=True)
        code = Exit.FAILED
    if code in FINAL and not options.dry_run:
        stop_own_job(code)
    return code


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    recipe = load_recipe(options.recipe, options.overrides)
    chips = chips_of(options.topology) if options.topology else None
    if options.slices > 1 and not chips:
        raise InputError(f"--slices {options.slices} needs --topology, the shape of each slice")
    # Imported here because MaxText, JAX and Ray take many seconds to import.
    if options.dry_run:
        os.environ.update(ENVIRONMENT_OF_DRY_RUN)
        from maxtext_driver.plan import print_plan

        print_plan(recipe, chips, options.accelerator, options.slices)
        return Exit.FINISHED
    run = RunFolder(options.output, options.run, options.folder)
    if code := dry_run(arguments):
        return code
    from maxtext_driver.ray_driver import run_on_ray

    placement = Placement(
        workers=options.workers,
        topology=options.topology,
        accelerator=options.accelerator,
        slices=options.slices,
    )
    return run_on_ray(recipe, run, placement, Limits.of(options))


def dry_run(arguments: list[str]) -> int:
    """Run this command with --dry-run in another process, because Ray must not fork once JAX has threads."""
    command = [sys.executable, "-m", "maxtext_driver", *arguments, "--dry-run"]
    return subprocess.run(command, check=False).returncode


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m maxtext_driver",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_common_options(parser, "steps=200")
    parser.add_argument("--output", type=Path, help="where the bucket is mounted, on every host and here")
    parser.add_argument("--folder", default="", help="the folder in it with the runs, created if missing")
    parser.add_argument("--workers", type=count, help="processes: one for each host of all slices")
    parser.add_argument("--topology", help="chips of the TPU slice in each direction: 4x4, or 2x2x1 of v5p")
    parser.add_argument("--slices", type=count, default=1, help="number of slices of that shape (1)")
    parser.add_argument(
        "--accelerator", default="TPU-V6E", help="the slice's accelerator as Ray names it (TPU-V6E)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
