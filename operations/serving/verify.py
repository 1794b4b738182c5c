"""`python -m operations verify`."""

import argparse
import sys
from typing import Final

from rich.console import Console

from operations.errors import OperationError
from operations.findings import COLOURS, Level, as_json, exit_status, show
from operations.google.credentials import clients_of
from operations.options import add_server
from operations.serving.check import Check, verdicts
from operations.serving.connection import connected
from operations.serving.server import server_of
from operations.state import Backend

HELP: Final = "compare the served model with what its run has kept of it"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_server(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(options: argparse.Namespace) -> int:
    """Prints the findings. Returns 0 for the model of the run, 1 for another, 2 for an unknown one.

    Raises:
        OperationError: When the server or the bucket does not answer.
    """
    state = Backend(options.stack).now()
    models = [model for model in server_of(state, options.stack).models if model.run]
    if not models:
        raise OperationError(
            f"not asked: stack {options.stack} serves a model of the Hub, and no run that could keep a check"
        )
    clients = clients_of(options.stack, state.project, options.endpoint)
    checks = [Check.read(model, clients) for model in models]
    with connected(state, options.stack, lambda: clients, options.kubeconfig, options.url) as connection:
        findings = [
            finding
            for model, check in zip(models, checks, strict=True)
            for finding in verdicts(connection, model, check)
        ]
    if options.json:
        print(as_json(findings, stack=options.stack))
    else:
        console = Console(width=None if sys.stdout.isatty() else 110)
        rows = ((finding.topic, finding.level, finding.what, finding.remedy) for finding in findings)
        title = f"verify of {options.stack}, which serves {', '.join(check.uri for check in checks)}"
        show(rows, title, console, "check", "found", "what to do", colours=COLOURS)
    levels = {finding.level for finding in findings}
    return exit_status(Level.PROBLEM in levels, Level.UNKNOWN in levels)
