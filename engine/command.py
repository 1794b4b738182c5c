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

# What is left of a local state (`file://`) whose engine was killed while it wrote, and what to do. Its
# attributes are written in place. The state itself is written elsewhere and then renamed, so it is whole
# (gocloud.dev/blob/fileblob, `Close` and `setAttrs`).
_STATES: Final = {
    r"failed to load checkpoint: (EOF|.*unexpected EOF)": "an engine was killed while it wrote the state, "
    "which is whole; the file beside it is not: delete .pulumi/stacks/PROJECT/STACK.json.attrs in the "
    "backend's folder",
    r"failed to load checkpoint: .*unexpected end of JSON input": "the state was cut off: copy "
    ".pulumi/stacks/PROJECT/STACK.json.bak over STACK.json in the backend's folder, then `pulumi refresh`",
}


class Engine(automation.PulumiCommand):
    """The engine's command, as the SDK found it. Unlike the SDK's it takes input, and ends when we do."""

    def __init__(self, found: automation.PulumiCommand) -> None:
        self.command = found.command
        self.version = found.version

    def output(
        self, arguments: list[str], folder: Path, environment: Mapping[str, str] = _NOTHING, text: str = ""
    ) -> str:
        """Runs a command and returns what it prints; see `call` for the arguments.

        Raises:
            EngineError: With what the engine says when it fails.
        """
        done = self.call(arguments, folder, environment, text)
        if done.code:
            said = done.code > 0 and with_cure(done.stderr.strip())
            raise EngineError(f"pulumi {' '.join(arguments[:2])}: {said or ending(done.code)}")
        return done.stdout

    def parsed(self, arguments: list[str], folder: Path) -> Any:
        """The JSON that a command prints.

        Raises:
            EngineError: As `output`, and when the command prints anything else.
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
        """Runs a command, also to a bad end.

        Args:
            arguments: Such as `["stack", "export"]`; open to every process of the machine, so no secrets.
            folder: Working directory.
            environment: Variables on top of this process's own.
            text: Standard input; the place for a secret.
            on_output: Told every line of the output, as `on_error` those of the errors.
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
            CommandError: When it fails.
            EngineError: When it was killed, whatever it had said before.
        """
        environment = {**additional_env, "PULUMI_AUTOMATION_API": "true"}
        done = self.call(args, Path(cwd), environment, on_output=on_output, on_error=on_error)
        if done.code < 0:
            raise EngineError(f"pulumi {args[0]} {ending(done.code)}")
        if done.code:
            raise automation.CommandError(done)
        return done


def with_cure(said: str) -> str:
    """What the engine says, and what to do if a state cannot be opened."""
    return "\n".join([said, *(cure for words, cure in _STATES.items() if re.search(words, said))])


def ending(code: int) -> str:
    """How a process has ended that says nothing more, for a person."""
    if code >= 0:
        return f"ended with status {code}"
    return f"was killed by {signal.Signals(-code).name}, as the system does when memory is short"


def _read(stream: IO[str] | None, tell: Log | None) -> str:
    lines: list[str] = []
    for line in stream or ():
        lines.append(line.rstrip())
        if tell:
            tell(lines[-1])
    return "\n".join(lines)
