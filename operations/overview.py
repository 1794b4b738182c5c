"""`python -m operations status`, with a line about the served model."""

import argparse

from operations.serving.status_line import ServedModelLine
from operations.status import command

HELP = command.HELP
arguments = command.arguments


def run(options: argparse.Namespace) -> int:
    """Prints the status and returns the exit status.

    Raises:
        OperationError: As `operations.status.command.run`.
    """
    return command.run(options, ServedModelLine().lines)
