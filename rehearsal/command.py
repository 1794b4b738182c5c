"""The command line of the rehearsal."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from cloud.organisation import CONSTRAINTS
from engine import project
from engine.errors import EngineError, writing
from engine.project import parse_override
from engine.text import visible
from rehearsal import interruption
from rehearsal.fakes.faults import KINDS
from rehearsal.lifecycle import Lifecycle
from rehearsal.session import Rehearsal
from rehearsal.stock import CAPACITIES


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--set KEY=VALUE`, whose texts are in `overrides`."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration value over the stack file's, such as capacity.type=spot; may be repeated",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal",
        description="Runs the Pulumi program of a stack on the real engine, with no cloud and no account.",
    )
    parser.add_argument("stack", help="name of the stack, such as a4-ray")
    parser.add_argument("--preview", action="store_true", help="stop after the preview")
    parser.add_argument(
        "--json",
        action="store_true",
        help="stop after the preview, and print it as `pulumi preview --json` does",
    )
    parser.add_argument(
        "--base",
        metavar="CHECKOUT",
        type=Path,
        help="with --json: preview what changes in a stack that another checkout's program has created",
    )
    add_set_option(parser)
    parser.add_argument(
        "--fail-at",
        metavar="NAME[:KIND]",
        help="let creation, update and deletion of this resource fail once each, then carry on; KIND is "
        + ", ".join(KINDS),
    )
    parser.add_argument(
        "--constraint",
        dest="constraints",
        metavar="NAME",
        action="append",
        default=[],
        choices=sorted(CONSTRAINTS),
        help="let a policy of the organisation enforce this constraint; may be repeated; NAME is one of "
        + ", ".join(sorted(CONSTRAINTS)),
    )
    parser.add_argument(
        "--clock",
        action="store_true",
        help="print how long `up` and `destroy` take in the cloud, computed from published durations",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="write the Kubernetes objects to a local control plane (built on first use, with Go)",
    )
    parser.add_argument(
        "--stockout",
        dest="stockouts",
        metavar="CAPACITY",
        action="append",
        default=[],
        choices=CAPACITIES,
        help="with --cluster or --clock: the platform has no machine of this capacity; may be repeated; "
        "CAPACITY is one of " + ", ".join(CAPACITIES),
    )
    parser.add_argument("--verbose", action="store_true", help="print every line of the engine")
    return parser


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a rehearsal and returns the exit status."""
    options = vars(_parser().parse_args(arguments))
    stack, as_json, base = options["stack"], options.pop("json"), options.pop("base")
    name = project.in_a_line(stack)
    interruption.raise_on_signals()
    try:
        options["overrides"] = dict(map(parse_override, options["overrides"]))
        if base:
            _require_checkout(base, as_json)
        with writing():
            if as_json:
                print(_report(stack, options["overrides"], base))
                return 0
            return 0 if Lifecycle(**options).run() else 1
    except EngineError as error:
        print(visible(f"rehearsal {name}: {error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"rehearsal {name}: interrupted; nothing is left behind", file=sys.stderr)
        return interruption.EXIT_STATUS


def _report(stack: str, overrides: Mapping[str, str], base: Path | None) -> str:
    """The engine's report of a preview. Everything else goes to standard error."""
    with redirect_stdout(sys.stderr), Rehearsal(stack, overrides, checkout=base or project.ROOT) as rehearsal:
        if base:
            rehearsal.up()
            rehearsal.move(project.ROOT)
        return rehearsal.preview().report


def _require_checkout(base: Path, as_json: bool) -> None:
    """Raises EngineError if the options do not allow `--base`, or the folder is no checkout."""
    if not as_json:
        raise EngineError("--base belongs to --json; give both, or neither")
    if not (base / project.PROJECT_FILE.name).is_file():
        raise EngineError(
            f"--base {base}: there is no {project.PROJECT_FILE.name}; name a checkout of this project"
        )
