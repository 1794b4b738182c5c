"""`python -m operations status`, with lines about the served model and about the cost."""

import argparse
from collections.abc import Iterator
from contextlib import suppress

from operations.cost.standing import standing_cost
from operations.errors import OperationError
from operations.google.clients import Clients
from operations.serving.status_line import ServedModelLine
from operations.state import State
from operations.status import command, goodput
from operations.status.cluster import Cluster
from operations.status.metrics import run_of
from operations.status.report import Line, line

HELP = command.HELP
arguments = command.arguments


def run(options: argparse.Namespace) -> int:
    """Prints the status and returns the exit status.

    Raises:
        OperationError: As `operations.status.command.run`.
    """
    served = ServedModelLine()

    def more(stack: str, state: State, clients: Clients, reached: Cluster | None) -> Iterator[Line]:
        yield from cost_line(stack, state, clients)
        yield from served.lines(stack, state, clients, reached)

    return command.run(options, more)


def cost_line(stack: str, state: State, clients: Clients) -> Iterator[Line]:
    """A line about the dollars of the stack and of its run by list prices, none if nothing is billed."""
    if not (cost := standing_cost(stack, state)):
        return
    files, seconds = run_of(clients, state.outputs), 0.0
    # The report says itself that the run cannot be read.
    with suppress(OperationError):
        seconds = goodput.trained_seconds(files) if files else 0.0
    parts = [cost.run(seconds)] if seconds and cost.per_training_hour else []
    yield line("cost", "list prices", cost.hour, *parts, cost.idle_month)
