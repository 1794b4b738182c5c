"""Runs the Pulumi engine: every `pulumi` that this project starts is started here."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

import pulumi.automation as automation

from engine.errors import EngineError
from engine.go_build import Log

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

# Messages of an engine that cannot open a local state (`file://`), and what to do. An engine was killed while
# it wrote the state. The attributes of the state are written in place. The state itself is written elsewhere
# and then renamed, so it is whole (gocloud.dev/blob/fileblob, `Close` and `setAttrs`).
_STATES: Final = {
    r"failed to load checkpoint: (EOF|.*unexpected EOF)": "an engine was killed while it wrote the state, "
    "which is whole; the file beside it is not: delete .pulumi/stacks/PROJECT/STACK.json.attrs in the "
    "backend's folder",
    r"failed to load checkpoint: .*unexpected end of JSON input": "the state was cut off: copy "
    ".pulumi/stacks/PROJECT/STACK.json.bak over STACK.json in the backend's folder, then `pulumi refresh`",
}


class Engine(automation.PulumiCommand):
    """The engine's command. Unlike the SDK's class, it accepts standard input and ends with this process.

    Args:
        command: The command that the SDK found.
    """

    def __init__(self, command: automation.PulumiCommand) -> None:
        self.command = command.command
        self.version = command.version

    def output(
        self, arguments: list[str], folder: Path, environment: Mapping[str, str] = _NOTHING, text: str = ""
    ) -> str:
        """Runs a command and returns its standard output. `call` describes the arguments.

        Raises:
            EngineError: If the command fails, with the engine's message.
        """
        result = self.call(arguments, folder, environment, text)
        if result.code:
            message = with_cure(result.stderr.strip()) if result.code > 0 else ""
            raise EngineError(f"pulumi {' '.join(arguments[:2])}: {message or ending(result.code)}")
        return result.stdout

    def parsed(self, arguments: list[str], folder: Path) -> Any:
        """The JSON that a command prints.

        Raises:
            EngineError: If the command fails, or prints something else.
        """
        printed = self.output(arguments, folder)
        try:
            return json.loads(printed)
        except (ValueError, RecursionError):
            command = f"pulumi {' '.join(arguments[:2])}"
            raise EngineError(f"{command} prints no JSON; is the `pulumi` on PATH Pulumi's own?") from None

    def call(
        self,
        arguments: list[str],
        folder: Path,
        environment: Mapping[str, str] = _NOTHING,
        text: str = "",
        on_output: Log | None = None,
        on_error: Log | None = None,
    ) -> automation.CommandResult:
        """Runs a command and returns its result, also if the command fails.

        Args:
            arguments: Such as `["stack", "export"]`. Every process of the machine can read them, so they hold
                no secrets.
            folder: Working directory.
            environment: Variables on top of this process's own.
            text: Standard input, the place for a secret.
            on_output: Receives every line of the output.
            on_error: Receives every line of the errors.
        """
        process = subprocess.Popen(
            [self.command, "--non-interactive", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true", **environment},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which decides
        )
        with ThreadPoolExecutor(2) as readers:
            try:
                output = readers.submit(_read, process.stdout, on_output)
                errors = readers.submit(_read, process.stderr, on_error)
                if process.stdin:
                    with suppress(BrokenPipeError), process.stdin as stdin:
                        stdin.write(text)
                return automation.CommandResult(output.result(), errors.result(), process.wait())
            finally:
                process.kill()
                process.wait()

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Log | None = None,
        on_error: Log | None = None,
    ) -> automation.CommandResult:
        """Runs a command for the SDK's Automation API, whose method this is.

        Raises:
            CommandError: If it fails.
            EngineError: If it was killed. The engine's messages until then do not matter.
        """
        environment = {**additional_env, "PULUMI_AUTOMATION_API": "true"}
        result = self.call(args, Path(cwd), environment, on_output=on_output, on_error=on_error)
        if result.code < 0:
            raise EngineError(f"pulumi {args[0]} {ending(result.code)}")
        if result.code:
            raise automation.CommandError(result)
        return result


def with_cure(message: str) -> str:
    """The engine's message, and what to do if it says that a state cannot be opened."""
    cures = [cure for pattern, cure in _STATES.items() if re.search(pattern, message)]
    return "\n".join([message, *cures])


def ending(code: int) -> str:
    """How a process ended, for a person, by its exit code. A negative code is a signal."""
    if code >= 0:
        return f"ended with status {code}"
    return f"was killed by {signal.Signals(-code).name}, as the system does when memory is short"


def _read(stream: IO[str] | None, log: Log | None) -> str:
    lines: list[str] = []
    for line in stream or ():
        lines.append(line.rstrip())
        if log:
            log(lines[-1])
    return "\n".join(lines)
