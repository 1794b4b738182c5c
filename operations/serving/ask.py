"""`python -m operations ask`."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import Timer
from typing import Final

from operations.errors import OperationError
from operations.google.credentials import clients_of
from operations.options import add_connection
from operations.serving import chat
from operations.serving.connection import Connection, connected
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
        nargs="?",
        metavar="PROMPT",
        help="the question, or the beginning of a text if the model was trained on plain texts; by default a "
        "conversation of the lines that you type, until Ctrl-D",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the answer alone, or that to each line of a conversation.

    Raises:
        OperationError: When there is no whole answer.
    """
    fields = dict(_field(text) for text in options.field)
    state = Backend(options.stack).now()
    server_of(state, options.stack)
    form = chat.Form.read(state.outputs, options.model)
    form = form.as_is() if options.as_is else form
    if form.texts and options.prompt is None:
        raise OperationError("the model was trained on plain texts, not on conversations: give a PROMPT")
    # A wrong field is told before anything is asked.
    form.question(options.prompt or "", fields)
    clients = partial(clients_of, options.stack, state.project, options.endpoint)
    with connected(state, options.stack, clients, options.kubeconfig, options.url) as connection:
        note = Timer(_PATIENCE_S, lambda: print(_NOTE, file=sys.stderr))
        if connection.starts:
            note.start()
        try:
            model = chat.served_model(connection, options.model)
        finally:
            note.cancel()
        if options.prompt is None:
            _converse(connection, model, form, fields)
        else:
            _print_answer(connection, model, form.question(options.prompt, fields))
    return 0


def _converse(connection: Connection, model: str, form: chat.Form, fields: Mapping[str, str]) -> None:
    """Answers each line of the standard input, with all lines and answers before it."""
    messages: list[dict[str, str]] = []
    for line in _lines():
        question = form.messages(line, fields)
        # The system message stands at the beginning alone.
        messages += question[-1:] if messages else question
        text = _print_answer(connection, model, messages)
        messages.append({"role": "assistant", "content": text})


def _lines() -> Iterator[str]:
    """The lines of the standard input that are not empty. A terminal shows where to type."""
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return
        if line.strip():
            yield line


def _print_answer(connection: Connection, model: str, question: str | Sequence[Mapping[str, str]]) -> str:
    """Prints an answer while it arrives, and returns the model's text."""
    printed = ""
    parts = chat.answer(connection, model, question)
    try:
        while True:
            text = next(parts)
            print(text, end="", flush=True)
            printed = text or printed
    except StopIteration as end:
        return end.value
    finally:
        if printed or not isinstance(sys.exception(), OperationError):
            print()


def _field(text: str) -> tuple[str, str]:
    name, equals, content = text.partition("=")
    if not name or not equals:
        raise OperationError(f"--field {text}: write NAME=TEXT")
    return name, content
