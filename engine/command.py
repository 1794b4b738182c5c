"""Runs the Pulumi engine: every `pulumi` that this project starts is started here."""

import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

import pulumi.automation as automation

from engine.errors import EngineError
from engine.go_build import Log

_NOTHING_MORE: Final[Mapping[str, str]] = MappingProxyType({})


class Engine(automation.PulumiCommand):
    """The engine's command. Unlike the SDK's it takes input, and ends when we do.

    Args:
        found: The command that the SDK made of an engine.
    """

    def __init__(self, found: automation.PulumiCommand) -> None:
        self.command = found.command
        self.version = found.version

    def output(
        self,
        arguments: list[str],
        folder: Path,
        environment: Mapping[str, str] = _NOTHING_MORE,
        text: str = "",
    ) -> str:
        """Runs a command and returns what it prints; see `call` for the arguments.

        Raises:
            EngineError: With what the engine says when it fails.
        """
        done = self.call(arguments, folder, environment, text)
        if done.code:
            said = done.stderr.strip() or f"ended with status {done.code}"
            raise EngineError(f"pulumi {' '.join(arguments[:2])}: {said}")
        return done.stdout

    def call(
        self,
        arguments: list[str],
        folder: Path,
        environment: Mapping[str, str] = _NOTHING_MORE,
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
            on_output: Told every line of the output.
            on_error: Told every line of the errors.
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
        try:
            output, errors = _Lines(process.stdout, on_output), _Lines(process.stderr, on_error)
            if process.stdin:
                with suppress(BrokenPipeError), process.stdin as stdin:
                    stdin.write(text)
            return automation.CommandResult(output.read(), errors.read(), process.wait())
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
        """
        environment = {**additional_env, "PULUMI_AUTOMATION_API": "true"}
        done = self.call(args, Path(cwd), environment, on_output=on_output, on_error=on_error)
        if done.code:
            raise automation.CommandError(done)
        return done


class _Lines:
    """Reads a stream to its end, beside whatever else goes on."""

    def __init__(self, stream: IO[str] | None, tell: Log | None) -> None:
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._collect, args=(stream, tell), daemon=True)
        self._thread.start()

    def read(self) -> str:
        """Everything, once the stream has ended."""
        self._thread.join()
        return "\n".join(self._lines)

    def _collect(self, stream: IO[str] | None, tell: Log | None) -> None:
        for line in stream or ():
            self._lines.append(line.rstrip())
            if tell:
                tell(line.rstrip())
