"""Finds the Pulumi engine, or gets it."""

import shutil
import threading
from typing import Final

import pulumi.automation as automation

from engine import go_build
from engine.command import Engine
from engine.errors import EngineError
from engine.go_build import GoModule, Log

_PULUMI: Final = GoModule(
    folder="pulumi",
    module="github.com/pulumi/pulumi/pkg/v3",
    commands={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    version_variable="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
)
_TO_INSTALL: Final = "https://www.pulumi.com/docs/install/"
# Where the installer's site cannot be reached the connection may hang instead of failing.
_INSTALLER_TIMEOUT: Final = 20.0


def find(log: Log) -> Engine:
    """The engine: on PATH, built or installed earlier, by the SDK's installer, or built with Go.

    Args:
        log: Told what takes long.

    Raises:
        EngineError: When there is no way to get one.
    """
    if shutil.which("pulumi"):
        return on_path()
    if go_build.path_of("pulumi").exists():
        return Engine(automation.PulumiCommand(root=str(go_build.TOOLS)))
    return Engine(_installed(log) or _built(log))


def on_path() -> Engine:
    """The engine that the person at the keyboard uses, with its plugins.

    Raises:
        EngineError: When there is none, or an older one than this project is tested with.
    """
    if not shutil.which("pulumi"):
        raise EngineError(f"there is no pulumi on PATH; {_TO_INSTALL} has it")
    found = Engine(automation.PulumiCommand(skip_version_check=True))
    oldest = _PULUMI.version.removeprefix("v")
    if found.version and found.version.compare(oldest) < 0:
        raise EngineError(
            f"pulumi {found.version} is on PATH, and this project needs {oldest} or newer: {_TO_INSTALL}"
        )
    return found


def distribution() -> Engine:
    """Pulumi's own distribution, which runs programs and installs plugins; the engine that is built does not.

    Raises:
        EngineError: As `on_path`, and when the engine is there alone.
    """
    found = on_path()
    if not shutil.which("pulumi-language-python"):
        raise EngineError(
            f"the pulumi on PATH has no pulumi-language-python beside it and runs no program: {_TO_INSTALL}"
        )
    return found


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
            f"there is no pulumi on PATH and it could not be downloaded; install it ({_TO_INSTALL}), "
            f"or let it be built: {error}"
        ) from None
    return automation.PulumiCommand(root=str(go_build.TOOLS))
