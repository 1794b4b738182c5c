"""The temporary directory in which the engine finds the project, the stack and its plugins."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from engine.command import Engine
from engine.configuration import Configuration
from engine.project import PROJECT_FILE, ROOT

_PASSPHRASE: Final = "rehearsal"
# What the program writes for the engine, in the folder that it runs in.
_WRITTEN: Final = ".build"
_PLUGIN: Final = "pulumi-resource-pulumi-python"


class Workspace:
    """A project with one stack.

    Args:
        directory: Where to put it; exists and is empty.
        stack: Name of the stack.
        engine: The engine.

    Attributes:
        directory: Where it is.
        environment: Variables for the engine on top of this process's own.
    """

    def __init__(self, directory: Path, stack: str, engine: Engine) -> None:
        self.directory = directory
        self._stack = stack
        self._engine = engine
        # A secret is encrypted once: the engine takes half a second for it, and each time gives another text.
        self._encrypted: dict[tuple[str, str], Any] = {}
        plugins = directory / "plugins"
        for folder in (self.backend, self.faults, plugins):
            folder.mkdir()
        _write_plugin(plugins / _PLUGIN)
        # Program and engine take a relative path from where each runs; under `pulumi up` that is one place.
        (directory / _WRITTEN).symlink_to(Path.cwd() / _WRITTEN, target_is_directory=True)
        self.environment = {
            "PATH": f"{plugins}{os.pathsep}{os.environ['PATH']}",
            "REHEARSAL_FAULTS": str(self.faults),
            "PULUMI_BACKEND_URL": f"file://{self.backend}",
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        }

    @property
    def backend(self) -> Path:
        """Folder of the engine's backend."""
        return self.directory / "state"

    @property
    def faults(self) -> Path:
        """Folder for `Faults`."""
        return self.directory / "faults"

    def use(self, checkout: Path) -> None:
        """Takes the project's file from a checkout."""
        shutil.copyfile(checkout / PROJECT_FILE.name, self.directory / PROJECT_FILE.name)

    def configure(self, configuration: Configuration) -> None:
        """Writes the stack file; the stack must be there, as its key encrypts the secrets."""
        file = self.directory / f"Pulumi.{self._stack}.yaml"
        written: dict[str, Any] = yaml.safe_load(file.read_text()) if file.exists() else {}
        secrets = configuration.secret.items()
        known = {key: self._encrypted[key, text] for key, text in secrets if (key, text) in self._encrypted}
        file.write_text(yaml.safe_dump({**written, "config": {**configuration.plain, **known}}))
        for key, text in secrets:
            if key not in known:
                # Through the standard input: arguments are open to every process.
                self.run(["config", "set", "--secret", key], text)
                self._encrypted[key, text] = yaml.safe_load(file.read_text())["config"][key]

    def run(self, arguments: list[str], text: str = "") -> str:
        """Runs the engine's command on the stack and returns what it prints.

        Args:
            arguments: Such as `["stack", "export"]`.
            text: Standard input.

        Raises:
            EngineError: With the engine's message.
        """
        command = [*arguments, "--stack", self._stack]
        return self._engine.output(command, self.directory, self.environment, text)


def _write_plugin(file: Path) -> None:
    """The provider of dynamic resources, which the official engine brings along and a built one lacks."""
    program = ROOT / "rehearsal" / "dynamic_plugin.py"
    file.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -u -P "{program}" "$@"\n')
    file.chmod(0o700)
