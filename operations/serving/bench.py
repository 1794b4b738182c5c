"""`python -m operations bench`."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

from rich.console import Console
from rich.table import Table

from operations.findings import cell, folding
from operations.google.credentials import clients_of
from operations.options import add_connection
from operations.serving import chat
from operations.serving.connection import connected
from operations.serving.load import AT_ONCE, TOKENS, Load, measure, require_client
from operations.serving.server import server_of
from operations.state import Backend

HELP: Final = "measure the server of the stack's model: time to the first token, between tokens, tokens/s"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(options: argparse.Namespace) -> int:
    """Prints what the server does under three loads. Returns 1 if it did not answer a request.

    Raises:
        OperationError: When the client is not installed, or nothing answers.
    """
    require_client()
    state = Backend(options.stack).now()
    server_of(state, options.stack)
    form = chat.Form.read(state.outputs, options.model)
    clients = partial(clients_of, options.stack, state.project, options.endpoint)
    with connected(state, options.stack, clients, options.kubeconfig, options.url) as connection:
        model = chat.served_model(connection, options.model)
        loads = [measure(connection, model, form, at_once) for at_once in AT_ONCE]
    if options.json:
        print(json.dumps({"stack": options.stack, "loads": [asdict(load) for load in loads]}, indent=2))
    else:
        Console().print(_table(options.stack, model, loads))
    return 1 if any(load.failed for load in loads) else 0


def _table(stack: str, model: str, loads: Sequence[Load]) -> Table:
    title = f"{stack}: {cell(model)}, answers of {TOKENS} tokens"
    heads = (
        "requests at once",
        "answered",
        "to the first token, ms",
        "the slowest, ms",
        "between tokens, ms",
    )
    table = folding(title, *heads, "tokens/s", figures=True)
    for load in loads:
        answered = f"{load.requests} of {load.requests + load.failed}"
        times = (load.first_ms, load.slowest_first_ms, load.between_ms, load.tokens_per_second)
        table.add_row(str(load.at_once), answered, *(f"{time:.1f}" for time in times))
    return table
