"""The operator's command line: `python -m operations COMMAND --stack STACK`.

Exit status: 0 if all is well, 1 if the command has findings, 2 if it could not look.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from engine.errors import EngineError, writing
from engine.text import visible
from operations.errors import OperationError
from operations.previews.redaction import Redaction

COULD_NOT_LOOK: Final = 2
_INTERRUPTED: Final = 130

# Commands and their modules, which have `HELP`, `arguments` and `run`. Only the module of the called command
# is imported.
COMMANDS: Final = {
    "preflight": "operations.preflight",
    "cost": "operations.cost.command",
    "capacity": "operations.capacity.command",
    "leftovers": "operations.leftovers.command",
    "status": "operations.overview",
    "first-run": "operations.assumptions.command",
    "preview-comment": "operations.preview_comment",
    "provider-check": "operations.provider_check",
    "drift": "operations.drift",
    "check-state": "operations.previews.state_code",
    "ask": "operations.serving.ask",
    "bench": "operations.serving.bench",
    "verify": "operations.serving.verify",
    "explain": "operations.explain",
    "report": "operations.report.command",
}


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m operations", description="Commands for a stack before and after `pulumi up`."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    names = words[:1] if words and words[0] in COMMANDS else COMMANDS
    for name in names:
        command = importlib.import_module(COMMANDS[name])
        inner = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.arguments(inner)
        inner.set_defaults(run=command.run)
    options = parser.parse_args(words)
    try:
        with writing():
            return options.run(options)
    except (OperationError, EngineError) as error:
        # The message may quote a server or the engine.
        print(visible(Redaction().text(f"operations {options.command}: {error}")), file=sys.stderr)
        return COULD_NOT_LOOK
    except KeyboardInterrupt:
        print(f"operations {options.command}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it. Python would report an error when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COULD_NOT_LOOK
