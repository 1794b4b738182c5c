"""`python -m operations report`."""

import argparse
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from operations.errors import OperationError
from operations.google.credentials import clients_of
from operations.report.page import render
from operations.report.record import read
from operations.state import Backend
from operations.status.metrics import run_of
from operations.status.run_files import RunFiles, RunInFolder

HELP: Final = "write one HTML file about a run: loss, answers before and after, recipe"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--stack", help="name of the stack that trains, such as a4-ray")
    source.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="the folder of a run that was trained on this machine, with its run.json",
    )
    parser.add_argument(
        "--run",
        dest="run_name",
        metavar="NAME",
        default="",
        help="another run in the stack's bucket; by default the one that the stack trains",
    )
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="the file to write; by default report-RUN.html in this folder"
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="a server that answers in place of Google, such as the test server"
    )


def run(options: argparse.Namespace) -> int:
    """Writes the report and prints its path.

    Raises:
        OperationError: When the stack trains nothing, the run has no step yet, or its files are odd.
    """
    files = _files(options)
    now = datetime.now(UTC)
    page = render(read(files), now)
    target: Path = options.to or Path(f"report-{files.run.replace('/', '-')}.html")
    if not target.parent.is_dir():
        raise OperationError(f"--to {target}: there is no folder {target.parent}")
    target.write_text(page, encoding="utf-8")
    print(f"{target}: open it in a browser")
    return 0


def _files(options: argparse.Namespace) -> RunFiles:
    if options.folder:
        if options.run_name:
            raise OperationError("--folder is the folder of one run: leave --run out")
        if not options.folder.is_dir():
            raise OperationError(f"--folder {options.folder}: there is no such folder; name that of a run")
        return RunInFolder(folder=options.folder)
    state = Backend(options.stack).now()
    files = run_of(clients_of(options.stack, state.project, options.endpoint), state.outputs)
    if not files:
        raise OperationError(
            f"stack {options.stack} trains nothing, or has no resources; name the stack that trains, or a "
            "--folder"
        )
    return replace(files, run=options.run_name) if options.run_name else files
