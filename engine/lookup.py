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
    """Standard output is the result of a command alone."""
    print(text, file=sys.stderr)


def find(log: Log = _say) -> Engine:
    """The engine: on PATH, built or installed earlier, by the SDK's installer, or built with Go.

    Args:
        log: Told what takes long.

    Raises:
        EngineError: When there is no way to get one.
    """
    if path := shutil.which("pulumi"):
        return _checked(path, None, _TO_INSTALL)
    if not go_build.path_of("pulumi").exists() and not _is_installed(log):
        _build(log)
    return _checked(str(go_build.path_of("pulumi")), str(go_build.TOOLS), "remove .tools and try again")


@cache
def _checked(path: str, root: str | None, remedy: str) -> Engine:
    """The engine at a path, which the SDK finds in `root`, or on PATH for None.

    A process asks it for its version once.
    """
    try:
        found = Engine(automation.PulumiCommand(root=root, skip_version_check=True))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{path} does not run ({error}); {remedy}") from None
    if not found.version:
        raise EngineError(f"{path} does not say which version it is, so it is no pulumi; {remedy}")
    oldest = _PULUMI.version.removeprefix("v")
    if found.version.compare(oldest) < 0:
        raise EngineError(f"{path} is version {found.version}, and {oldest} or newer is needed; {remedy}")
    return found


def distribution() -> Engine:
    """Pulumi's own distribution, which runs programs and installs plugins; the engine that is built does not.

    Raises:
        EngineError: As `find`, and when the engine is there alone.
    """
    found = find()
    language = "pulumi-language-python"
    if not shutil.which(language) and not Path(found.command).with_name(language).exists():
        raise EngineError(f"{found.command} has no {language} beside it and runs no program: {_TO_INSTALL}")
    return found


def _is_installed(log: Log) -> bool:
    """By the SDK's own installer, given little time."""
    log(f"no pulumi on PATH; asking get.pulumi.com for one (gives up after {_INSTALLER_TIMEOUT:.0f} s)")
    found = threading.Event()

    def install() -> None:
        try:
            automation.PulumiCommand.install(root=str(go_build.TOOLS))
            found.set()
        # Whatever stops the installer, building is next.
        except Exception as error:
            log(f"not installed: {error}")

    thread = threading.Thread(target=install, daemon=True)
    thread.start()
    thread.join(_INSTALLER_TIMEOUT)
    return found.is_set()


def _build(log: Log) -> None:
    """Builds the engine as pinned in tools/pulumi."""
    try:
        go_build.build([_PULUMI], log)
    except EngineError as error:
        raise EngineError(
            f"there is no pulumi on PATH and it could not be downloaded; install it ({_TO_INSTALL}), "
            f"or let it be built: {error}"
        ) from None
