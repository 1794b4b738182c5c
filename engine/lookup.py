"""Finds the Pulumi engine, or gets it."""

import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Final

import pulumi.automation as automation

from engine import go_build
from engine.command import Engine
from engine.errors import EngineError
from engine.go_build import GoModule, Log

_PULUMI: Final = GoModule(
    folder="pulumi",
    minutes=3,
    module="github.com/pulumi/pulumi/pkg/v3",
    commands={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    version_variable="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
)
_TO_INSTALL: Final = "https://www.pulumi.com/docs/install/"
# Where the installer's site cannot be reached the connection may hang instead of failing.
_INSTALLER_TIMEOUT: Final = 20.0


def _say(text: str) -> None:
    """Prints to standard error: standard output has only the result of a command."""
    print(text, file=sys.stderr)


def find(log: Log = _say) -> Engine:
    """The engine on PATH, or one in `.tools/`, which the SDK's installer downloads or Go builds.

    Args:
        log: Receives a line before a step that takes long.

    Raises:
        EngineError: If there is no engine and no way to get one.
    """
    if path := shutil.which("pulumi"):
        return _checked(path, None, _TO_INSTALL)
    if not go_build.path_of("pulumi").exists() and not _is_installed(log):
        _build(log)
    return _checked(str(go_build.path_of("pulumi")), str(go_build.TOOLS), "remove .tools and try again")


@cache
def _checked(path: str, root: str | None, remedy: str) -> Engine:
    """The engine at a path if it runs and is new enough. A process checks it once.

    Args:
        path: Path of the command.
        root: Folder in which the SDK finds the command, None for PATH.
        remedy: The end of the error's message.
    """
    try:
        engine = Engine(automation.PulumiCommand(root=root, skip_version_check=True))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{path} does not run ({error}); {remedy}") from None
    if not engine.version:
        raise EngineError(f"{path} does not say which version it is, so it is no pulumi; {remedy}")
    oldest = _PULUMI.version.removeprefix("v")
    if engine.version.compare(oldest) < 0:
        raise EngineError(f"{path} is version {engine.version}, and {oldest} or newer is needed; {remedy}")
    return engine


def distribution() -> Engine:
    """Pulumi's own distribution. Unlike the engine that Go builds, it runs programs and installs plugins.

    Raises:
        EngineError: If there is no engine, or it has no program beside it that runs Python.
    """
    engine = find()
    language = "pulumi-language-python"
    if not shutil.which(language) and not Path(engine.command).with_name(language).exists():
        raise EngineError(f"{engine.command} has no {language} beside it and runs no program: {_TO_INSTALL}")
    return engine


def _is_installed(log: Log) -> bool:
    """Whether the SDK's own installer could install an engine in a short time."""
    log(f"no pulumi on PATH; asking get.pulumi.com for one (gives up after {_INSTALLER_TIMEOUT:.0f} s)")
    installed = threading.Event()

    def install() -> None:
        try:
            automation.PulumiCommand.install(root=str(go_build.TOOLS))
            installed.set()
        # Any error of the installer only means that the engine must be built.
        except Exception as error:
            log(f"not installed: {error}")

    thread = threading.Thread(target=install, daemon=True)
    thread.start()
    thread.join(_INSTALLER_TIMEOUT)
    return installed.is_set()


def _build(log: Log) -> None:
    """Builds the engine as pinned in tools/pulumi."""
    try:
        go_build.build([_PULUMI], log)
    except EngineError as error:
        raise EngineError(
            f"there is no pulumi on PATH and it could not be downloaded; install it ({_TO_INSTALL}), "
            f"or let it be built: {error}"
        ) from None
