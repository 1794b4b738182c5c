"""Command line of the fine-tuning package.

    python -m finetune ray --recipe gemma-3-4b-vision --storage gs://BUCKET --run RUN --workers 16 \\
        --accelerator B200
    python -m finetune torchrun --recipe gemma-3-12b-text-to-sql --storage gs://BUCKET --run RUN --processes 8
    python -m finetune local --recipe path/to/recipe.yaml --storage /tmp/runs --run RUN

The same command again resumes from the newest complete checkpoint; a finished run is left alone.
Exit codes: 0 finished, 1 failed, 2 the input is wrong, 143 stopped by SIGTERM and saved.
"""

import argparse
import sys

from finetune.errors import EXIT_BAD_INPUT, InputError
from finetune.recipe import load_recipe


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe)
        # The drivers import torch and Ray, which takes many seconds: only when there is something to run.
        if options.command == "ray":
            from finetune.ray_driver import run_on_ray

            return run_on_ray(recipe, options.storage, options.run, options.workers, options.accelerator)
        if options.command == "torchrun":
            from finetune.torchrun import run_torchrun

            return run_torchrun(recipe, options)
        from finetune.local_driver import run_local

        return run_local(recipe, options.storage, options.run)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return EXIT_BAD_INPUT


def make_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        prog="python -m finetune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    local = commands.add_parser("local", help="train in this process, or in torchrun's")
    on_ray = commands.add_parser(
        "ray", help="train with Ray Train on the cluster that RAY_ADDRESS names, or here"
    )
    torchrun = commands.add_parser(
        "torchrun", help="train in a process per GPU, on this node and perhaps others"
    )
    for command in (local, on_ray, torchrun):
        command.add_argument(
            "--recipe", required=True, help="a shipped recipe's name, or the path of a YAML file"
        )
        command.add_argument("--storage", required=True, help="gs://BUCKET[/FOLDER] or a local directory")
        command.add_argument(
            "--run", required=True, help="the run's directory in the storage; the same name resumes"
        )
    torchrun.add_argument("--processes", required=True, type=_count, help="processes on this node")
    torchrun.add_argument(
        "--nodes", default=1, type=_count, help="how many nodes run this command, in any order"
    )
    torchrun.add_argument(
        "--rendezvous", metavar="HOST:PORT", help="where several nodes meet, on one of them"
    )
    on_ray.add_argument(
        "--workers", required=True, type=_count, help="processes; one GPU each where there are GPUs"
    )
    on_ray.add_argument("--accelerator", help="accelerator type as Ray names it, for example B200")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
