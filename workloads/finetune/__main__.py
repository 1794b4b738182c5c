"""Command line of the fine-tuning package.

    python -m finetune ray --recipe gemma-3-4b-vision --storage gs://BUCKET --run RUN --workers 16 \\
        --accelerator B200

    python -m finetune torchrun --recipe gemma-3-12b-text-to-sql --storage gs://BUCKET --run RUN --processes 8

    python -m finetune local --recipe path/to/recipe.yaml --storage /tmp/runs --run RUN

    python -m finetune local --recipe gemma-3-1b-emoji --set training.epochs=2 --dry-run

    python -m finetune merge gs://BUCKET/RUN model

    python -m finetune copy google/gemma-3-12b-it gs://BUCKET/FOLDER --revision main

The same command again resumes from the newest complete checkpoint. A finished run is left alone.
Exit codes: shared/exit_codes.py.
"""

import argparse
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from finetune.settings.recipe import Recipe, load_recipe
from shared.command_line import add_common_options, count
from shared.errors import InputError, PassingError
from shared.exit_codes import FINAL, Exit
from shared.ray_job import stop_own_job
from shared.recipe_file import RecipeError
from shared.remembered import remember, remembered
from shared.time_limit import Limits, TimeLimit
from shared.weather import in_one_line

if TYPE_CHECKING:
    from finetune.storage.checkpoint import RunFolder


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    trains_nothing = {"merge": _merge, "copy": _copy}.get(options.command)
    if not (trains_nothing or options.dry_run or (options.storage and options.run)):
        parser.error("--storage and --run are required, except with --dry-run")
    try:
        with in_one_line():
            if trains_nothing:
                return trains_nothing(options)
            if options.dry_run:
                return _dry_run(options)
            recipe = _recipe(options)
            _check_together(options)
            code = _run(recipe, options)
    except (InputError, RecipeError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        code = Exit.BAD_INPUT
    except PassingError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return Exit.FAILED
    if options.command == "ray" and code in FINAL:
        stop_own_job(code)
    return code


# The commands import what they need themselves, because torch and Ray take many seconds to import.


def _merge(options: argparse.Namespace) -> int:
    """Merge the adapter of a finished run into its model."""
    from finetune.results.merge import merge_run

    merge_run(options.folder, options.output)
    return Exit.FINISHED


def _copy(options: argparse.Namespace) -> int:
    """Copy a model of the Hub into a bucket."""
    from finetune.results.weights import copy_weights
    from finetune.settings.sections import Model

    _end_on_sigterm()
    model = Model(name=options.model, revision=options.revision)
    copy_weights(model, options.folder, options.max_model_len, options.gpus)
    return Exit.FINISHED


def _recipe(options: argparse.Namespace) -> Recipe:
    """The recipe with the command's settings, and with its paths in the run's storage."""
    recipe = load_recipe(options.recipe, options.overrides)
    return recipe.in_storage(options.storage) if options.storage else recipe


def _dry_run(options: argparse.Namespace) -> int:
    """Print what a run would do."""
    from finetune.dry_run import print_plan

    recipe = _recipe(options)
    if options.storage and options.run:
        from finetune.storage.checkpoint import RunFolder

        recipe = RunFolder(options.storage, options.run).at_recorded_commits(recipe)
    processes = options.processes * options.nodes
    try:
        print_plan(recipe.shared_by(processes, options.batch_for or processes), processes)
    except ValueError as error:
        raise InputError(str(error)) from None
    settings = "".join(f" --set {shlex.quote(setting)}" for setting in options.overrides)
    print(f"try it on this CPU: python -m trial --recipe {shlex.quote(options.recipe)}{settings}")
    return Exit.FINISHED


def _run(recipe: Recipe, options: argparse.Namespace) -> int:
    """Train, unless the run's directory says that the run is finished or that no try helps."""
    from finetune.results.push import push
    from finetune.storage.checkpoint import RunFolder

    run = RunFolder(options.storage, options.run)
    _end_on_sigterm()
    # The first process claims the run for all that torchrun starts.
    first = int(os.environ.get("RANK", "0")) == 0
    workers = options.processes * options.nodes
    done = run.claim(recipe, workers, options.resize, options.batch_for) if first else run.finished()
    recipe = run.resized(recipe, workers, options.batch_for)
    if not done and (code := _try(recipe, run, options, first)):
        return code
    if first:
        push(run, recipe.training)
        for line in run.gain():
            print(line)
        print(run.ending(recipe.training.result, " already" if done else ""), flush=True)
    return Exit.FINISHED


def _end_on_sigterm() -> None:
    # The first process of a container ignores signals without a handler. The drivers set others later.
    # sys.exit would not do: inside the library's wait for other nodes it was lost once, and the wait went on.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(Exit.INTERRUPTED))


def _try(recipe: Recipe, run: "RunFolder", options: argparse.Namespace, first: bool) -> int:
    if reason := remembered(run.folder):
        raise InputError(f"{reason} (an earlier try's finding; `pulumi up --replace` of the job looks again)")
    limit = TimeLimit(run.folder, Limits.of(options), counts=first)
    if limit.reached():
        print(f"error: {limit.sentence}", file=sys.stderr, flush=True)
        return Exit.LIMIT_REACHED
    try:
        with in_one_line():
            if first:
                recipe = run.pinned(recipe)
                _check_inputs(recipe)
            return _train(recipe, run, limit, options)
    except InputError as error:
        if first:
            remember(run.folder, str(error))
        raise


def _check_inputs(recipe: Recipe) -> None:
    """Raises InputError when trackers, model, data or the Hub that is pushed to cannot be used."""
    from finetune.model.loading import check_model
    from finetune.results.push import check_push
    from finetune.rows.data import check_data
    from finetune.run.trackers import check_trackers

    check_push(recipe.training)
    check_trackers(recipe.training.report_to)
    check_model(recipe.model)
    check_data(recipe.data)


def _train(recipe: Recipe, run: "RunFolder", limit: TimeLimit, options: argparse.Namespace) -> int:
    # Imported here because torch and Ray take many seconds to import.
    if options.command == "ray":
        from finetune.ray_driver import run_on_ray

        return run_on_ray(recipe, run, options)
    if options.command == "torchrun":
        from finetune.torchrun import run_torchrun

        return run_torchrun(run, options)
    from finetune.local_driver import run_local

    return run_local(recipe, run, limit)


def _check_together(options: argparse.Namespace) -> None:
    if options.command == "torchrun" and options.nodes > 1 and not options.rendezvous:
        raise InputError("--nodes above 1 needs --rendezvous HOST:PORT, where the nodes meet")


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
    merge = commands.add_parser("merge", help="write the model of a finished run with its adapter in it")
    merge.add_argument("folder", help="the run's: gs://BUCKET/RUN or a local directory")
    merge.add_argument("output", type=Path, help="a new directory, which transformers and vLLM load")
    copy = commands.add_parser("copy", help="copy a model of the Hub into a bucket once, for its servers")
    copy.add_argument("model", help="its name on the Hub")
    copy.add_argument("folder", help="where to: gs://BUCKET/FOLDER or a local directory")
    copy.add_argument("--revision", help="branch, tag or commit; by default the main branch")
    copy.add_argument("--max-model-len", type=count, default=0, help="tokens of a request of its servers")
    copy.add_argument("--gpus", type=count, default=1, help="GPUs of such a server")
    for command in (local, on_ray, torchrun):
        add_common_options(command, "training.learning_rate=1e-4")
        command.add_argument("--storage", help="gs://BUCKET[/FOLDER] or a local directory")
        command.add_argument(
            "--resize",
            action="store_true",
            help="go on with another number of processes: a step has the same rows, in more or fewer batches",
        )
        command.add_argument(
            "--batch-for",
            type=count,
            metavar="PROCESSES",
            help="processes that the recipe's batch is meant for: with others, a step has the same rows",
        )
        command.set_defaults(nodes=1)
    local.set_defaults(processes=int(os.environ.get("WORLD_SIZE", "1")))
    torchrun.add_argument("--processes", required=True, type=count, help="processes on this node")
    torchrun.add_argument(
        "--nodes", default=1, type=count, help="how many nodes run this command, in any order"
    )
    torchrun.add_argument(
        "--rendezvous", metavar="HOST:PORT", help="where several nodes meet, on one of them"
    )
    on_ray.add_argument(
        "--workers",
        required=True,
        type=count,
        dest="processes",
        metavar="WORKERS",
        help="processes; one GPU each where there are GPUs",
    )
    on_ray.add_argument("--accelerator", help="accelerator type as Ray names it, for example B200")
    return parser


if __name__ == "__main__":
    sys.exit(main())
