"""`python -m operations explain`: what to do about the errors that `pulumi` printed."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from components.base.remedies import what_to_do
from engine.recorder import AFTERMATH
from engine.text import visible
from operations.errors import OperationError
from operations.previews.redaction import Redaction

HELP: Final = "say what to do about the errors in the output of `pulumi up`, `destroy` or `refresh`"

# The engine's list of errors: a line for each resource, and indented below it the provider's message.
_RESOURCE: Final = re.compile(r"^  (\w[\w.:/-]*:\w+) \((.+)\):$")
_ERROR: Final = re.compile(r"^    (?:error|warning): (.*)$")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# The first words of the engine when it destroys a stack.
_DESTROYING: Final = "Destroying ("


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--stack", required=True, help="name of the stack, such as a4-ray")
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="what `pulumi` printed; by default the standard input",
    )


def run(options: argparse.Namespace) -> int:
    """Prints a remedy for each resource that failed.

    Returns 1 if a resource has none, or if nothing failed.
    """
    output = _COLOUR.sub("", _read(options.file))
    command = "pulumi destroy" if _DESTROYING in output else "pulumi up"
    failures = list(failures_in(output))
    if not failures:
        raise OperationError(
            "there is no error in it: give the whole output of `pulumi`, from its first line to its last"
        )
    unknown = 0
    for kind, name, message in failures:
        remedy = what_to_do(kind, message, options.stack, command)
        unknown += not remedy
        if not remedy:
            first_line = message.strip().partition("\n")[0]
            remedy = f"nothing is known about this error, see docs/troubleshooting.md: {first_line}"
        print(visible(Redaction().text(f"{name}: {remedy}")))
    return 1 if unknown else 0


def failures_in(output: str) -> Iterator[tuple[str, str, str]]:
    """Type, name and message of every resource that failed.

    Args:
        output: The output of `pulumi`, without colours.
    """
    _, _, diagnostics = output.partition("\nDiagnostics:\n")
    kind = name = ""
    lines: list[str] = []
    for line in [*diagnostics.splitlines(), "  end:end (end):"]:
        if resource := _RESOURCE.match(line):
            if lines:
                yield kind, name, "\n".join(lines)
            kind, name, lines = resource[1], resource[2], []
        elif error := _ERROR.match(line):
            # A warning is the program's own, such as a remedy that `up` has printed already.
            is_cause = line.lstrip().startswith("error:") and not error[1].startswith(AFTERMATH)
            lines += [error[1]] if is_cause else []
        elif lines and line.startswith("      "):
            lines.append(line.strip())


def _read(file: Path | None) -> str:
    if file is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise OperationError("give a FILE, or the output of `pulumi` as the standard input")
        return sys.stdin.read()
    try:
        return file.read_text(errors="replace")
    except OSError as error:
        raise OperationError(f"{file} cannot be read: {error.strerror}") from None
