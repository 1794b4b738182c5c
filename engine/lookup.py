"""Finds the Pulumi engine, or gets it."""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from typing import IO, Final

import pulumi.automation as automation

from engine import go_build
from engine.errors import EngineError
from engine.go_build import GoModule, Log

_PULUMI: Final = GoModule(
    folder="pulumi",
    module="github.com/pulumi/pulumi/pkg/v3",
    commands={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    minutes=3,
    version_variable="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
)
# Where the installer's site cannot be reached the connection may hang instead of failing.
_INSTALLER_TIMEOUT: Final = 20.0


class Engine(automation.PulumiCommand):
    """The engine's command. Unlike the SDK's it takes input, and ends when we do.

    Args:
        found: The command that the SDK made of an engine.
    """

    def __init__(self, found: automation.PulumiCommand) -> None:
        self.command = found.command
        self.version = found.version

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Log | None = None,
        on_error: Log | None = None,
        text: str = "",
    ) -> automation.CommandResult:
        """Runs the engine; see the SDK's method.

        Args:
            args: Arguments.
            cwd: Working directory.
            additional_env: Environment on top of this process's own.
            on_output: Told every line of the output.
            on_error: Told every line of the errors.
            text: Standard input.

        Raises:
            CommandError: When it fails.
        """
        process = subprocess.Popen(
            [self.command, "--non-interactive", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"},
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which decides
        )
        try:
            output, errors = _Lines(process.stdout, on_output), _Lines(process.stderr, on_error)
            if process.stdin:
                process.stdin.write(text)
                process.stdin.close()
            result = automation.CommandResult(output.read(), errors.read(), process.wait())
        finally:
            process.kill()
            process.wait()
        if result.code:
            raise automation.CommandError(result)
        return result


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


def find(log: Log) -> Engine:
    """The engine: on PATH, built or installed earlier, by the SDK's installer, or built with Go.

    Args:
        log: Told what takes long.

    Raises:
        EngineError: When there is no way to get one.
    """
    if shutil.which("pulumi"):
        return Engine(automation.PulumiCommand())
    if go_build.path_of("pulumi").exists():
        return Engine(automation.PulumiCommand(root=str(go_build.TOOLS)))
    return Engine(_installed(log) or _built(log))


def _installed(log: Log) -> automation.PulumiCommand | None:
    """The SDK's own installer, given little time."""
    log(f"no pulumi on PATH; asking get.pulumi.com for one (gives up after {_INSTALLER_TIMEOUT:.0f} s)")
    found: list[automation.PulumiCommand] = []

    def install() -> None:
        try:
            found.append(automation.PulumiCommand.install(root=str(go_build.TOOLS)))
        # Whatever stops the installer, building is next.
        except Exception as error:
            log(f"not installed: {error}")

    thread = threading.Thread(target=install, daemon=True)
    thread.start()
    thread.join(_INSTALLER_TIMEOUT)
    return found[0] if found else None


def _built(log: Log) -> automation.PulumiCommand:
    """Builds the engine as pinned in tools/pulumi."""
    try:
        go_build.build([_PULUMI], log)
    except EngineError as error:
        raise EngineError(
            "there is no pulumi on PATH and it could not be downloaded; install it "
            f"(https://www.pulumi.com/docs/install/), or let it be built: {error}"
        ) from None
    return automation.PulumiCommand(root=str(go_build.TOOLS))
