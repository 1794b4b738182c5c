"""The temporary directory in which the engine finds the project, the stack and its plugins."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from engine import project
from engine.configuration import Configuration
from engine.lookup import Engine

_PASSPHRASE: Final = "rehearsal"
# What the program writes for the engine, in the folder that it runs in.
_WRITTEN: Final = ".build"
_PLUGIN: Final = "pulumi-resource-pulumi-python"


class Workspace:
    """A project with one stack, for as long as the context.

    Args:
        stack: Name of the stack.
        engine: The engine.
        checkout: Where the project's file is.

    Attributes:
        directory: Where it is.
        environment: Variables for the engine on top of this process's own.
    """

    def __init__(self, stack: str, engine: Engine, checkout: Path) -> None:
        self._stack = stack
        self._engine = engine
        self._checkout = checkout
        # A secret is encrypted once: each time gives another text, and the engine takes half a second for it.
        self._encrypted: dict[tuple[str, str], Any] = {}

    def __enter__(self) -> Self:
        """Makes the directory, as yet without the stack."""
        self.directory = Path(tempfile.mkdtemp(prefix=f"rehearsal-{self._stack}-"))
        for folder in (self.backend, self.faults, self._plugins):
            folder.mkdir()
        # Program and engine take a relative path from where each runs; under `pulumi up` that is one place.
        (self.directory / _WRITTEN).symlink_to(Path.cwd() / _WRITTEN, target_is_directory=True)
        self._write_plugin()
        self.copy_project(self._checkout)
        self.environment = {
            "PATH": f"{self._plugins}{os.pathsep}{os.environ['PATH']}",
            "REHEARSAL_FAULTS": str(self.faults),
            "PULUMI_BACKEND_URL": f"file://{self.backend}",
            "PULUMI_HOME": str(self.home),
            "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def backend(self) -> Path:
        """Folder of the engine's backend."""
        return self.directory / "state"

    @property
    def home(self) -> Path:
        """Folder of the engine's own files."""
        return self.directory / "home"

    @property
    def faults(self) -> Path:
        """Folder for `Faults`."""
        return self.directory / "faults"

    def copy_project(self, checkout: Path) -> None:
        """Copies the project's file."""
        shutil.copyfile(checkout / project.PROJECT_FILE.name, self.directory / project.PROJECT_FILE.name)

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
        return self._engine.output(
            [*arguments, "--stack", self._stack], self.directory, self.environment, text
        )

    @property
    def _plugins(self) -> Path:
        return self.directory / "plugins"

    def _write_plugin(self) -> None:
        """The provider of dynamic resources, which the official engine brings along and a built one lacks."""
        plugin = self._plugins / _PLUGIN
        program = project.ROOT / "rehearsal" / "dynamic_plugin.py"
        run = f'PYTHONPATH="{project.ROOT}" exec "{sys.executable}" -u -P "{program}" "$@"'
        plugin.write_text(f"#!/bin/sh\n{run}\n")
        plugin.chmod(0o700)
