"""`python -m operations ask`."""

import argparse
import sys
from functools import partial
from threading import Timer
from typing import Final

from operations.errors import OperationError
from operations.google.credentials import clients_of
from operations.options import add_connection
from operations.serving import chat
from operations.serving.connection import connected
from operations.serving.server import server_of
from operations.state import Backend

HELP: Final = "ask the model that the stack serves, and print its answer"

_PATIENCE_S: Final = 10.0
_NOTE: Final = "no answer yet: the first one waits for an instance to start, which takes minutes"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_connection(parser)
    parser.add_argument(
        "--field",
        metavar="NAME=TEXT",
        action="append",
        default=[],
        help="another field of the prompts that the model was trained on, such as schema; may be repeated",
    )
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="send PROMPT alone, without the recipe's prompt",
    )
    parser.add_argument(
        "prompt",
        metavar="PROMPT",
        help="the question, or the beginning of a text if the model was trained on plain texts",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the answer alone.

    Raises:
        OperationError: When there is no whole answer.
    """
    fields = dict(_field(text) for text in options.field)
    state = Backend(options.stack).now()
    server_of(state, options.stack)
    form = chat.Form.read(state.outputs)
    question = (form.as_is() if options.as_is else form).question(options.prompt, fields)
    clients = partial(clients_of, options.stack, state.project, options.endpoint)
    with connected(state, options.stack, clients, options.kubeconfig, options.url) as connection:
        note = Timer(_PATIENCE_S, lambda: print(_NOTE, file=sys.stderr))
        if connection.starts:
            note.start()
        try:
            model = chat.served_model(connection, options.model)
        finally:
            note.cancel()
        printed = ""
        try:
            for text in chat.answer(connection, model, question):
                print(text, end="", flush=True)
                printed = text or printed
        finally:
            if printed or not sys.exception():
                print()
    return 0


def _field(text: str) -> tuple[str, str]:
    name, equals, content = text.partition("=")
    if not name or not equals:
        raise OperationError(f"--field {text}: write NAME=TEXT")
    return name, content
