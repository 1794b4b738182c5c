"""The temporary directory with the project, the stack and the engine's home."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import pulumi.automation as automation
import yaml

from engine.command import Engine
from engine.configuration import Configuration
from engine.lock import held
from engine.project import PROJECT_FILE
from rehearsal.fakes.vault import KEY, Vault

# The folder in which the program writes files for the engine, in its working directory.
_WRITTEN: Final = ".build"
_FOLDERS: Final = "llm-stacks-rehearsal-"


@contextmanager
def folder_of_its_own(name: str) -> Generator[Path]:
    """A temporary folder, held until the end of the context. Deletes what killed rehearsals have left."""
    home = Path(tempfile.gettempdir())
    with ExitStack() as started:
        with held(home, lambda: None):  # no other process deletes the new folder before it is held
            for left in home.glob(f"{_FOLDERS}*"):
                with suppress(OSError), held(left, _in_use):
                    _end_processes(left)
                    shutil.rmtree(left, ignore_errors=True)
            temporary = tempfile.TemporaryDirectory(prefix=f"{_FOLDERS}{name}-", ignore_cleanup_errors=True)
            folder = Path(started.enter_context(temporary))
            started.enter_context(held(folder, _in_use))
        yield folder


def _end_processes(folder: Path) -> None:
    """Ends the processes of a killed rehearsal, which would go on writing into its folder.

    These are the processes whose ids are in the folder's files, if their command lines name the folder, and
    also the engines whose state is in the folder. Without /proc it ends none.
    """
    for file in folder.rglob("*.pid"):
        with suppress(OSError, ValueError):
            if str(folder) in Path(f"/proc/{int(file.read_text())}/cmdline").read_text():
                os.kill(int(file.read_text()), signal.SIGKILL)
    state = f"PULUMI_BACKEND_URL=file://{folder}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_engine = (process / "comm").read_text().startswith("pulumi")
            if is_engine and state in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def _in_use() -> None:
    raise BlockingIOError


class Workspace(automation.LocalWorkspace):
    """A project with one stack.

    Args:
        directory: An empty folder for it.
        name: Name of the stack.
        engine: The engine.
        program: The program that the engine runs.
        vault: The server with the key of the stack's secrets. A passphrase would cost every process of the
            engine a quarter of a second.

    Attributes:
        backend: Folder of the engine's backend.
        environment: Variables for the engine on top of this process's own.
    """

    # This process encrypts a secret once, as the engine returns another text every time. All stacks have one
    # key.
    _encrypted: ClassVar[dict[tuple[str, str], Any]] = {}
    # The files of empty states by project and stack. The engine creates a stack once in a process.
    _empty_states: ClassVar[dict[tuple[str, str], dict[Path, bytes]]] = {}

    def __init__(
        self, directory: Path, name: str, engine: Engine, program: Callable[[], Any], vault: Vault
    ) -> None:
        self.backend = directory / "state"
        self.backend.mkdir()
        # The engine writes an encrypted log, which is half of its work. Without the folder it writes none.
        (home := directory / "home").mkdir()
        (home / "logs").touch()
        # Program and engine have different working directories here, and one under `pulumi up`.
        (directory / _WRITTEN).symlink_to(Path.cwd() / _WRITTEN, target_is_directory=True)
        self.environment = {
            "PULUMI_BACKEND_URL": f"file://{self.backend}",
            "PULUMI_HOME": str(home),
            "VAULT_SERVER_URL": vault.address,
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
            "PULUMI_DIY_BACKEND_GZIP": "false",  # `state` reads the file
            # The engine writes the state once, at the end. Once a step would be half of the work.
            "PULUMI_EXPERIMENTAL": "true",
            "PULUMI_SKIP_CHECKPOINTS": os.environ.get("PULUMI_SKIP_CHECKPOINTS", "true"),
            # The engine runs for seconds. Garbage collection would be a sixth of its work.
            "GOGC": "off",
            "GOMEMLIMIT": "1GiB",
        }
        self._name = name
        self._engine = engine
        self._file = directory / f"Pulumi.{name}.yaml"
        self._file.write_text(yaml.safe_dump({"secretsprovider": vault.provider, "encryptedkey": KEY}))
        super().__init__(
            work_dir=str(directory),
            program=program,
            env_vars=self.environment,
            secrets_provider=vault.provider,
            pulumi_command=engine,
        )

    def use(self, checkout: Path) -> None:
        """Copies the project file of a checkout."""
        shutil.copyfile(checkout / PROJECT_FILE.name, self._file.with_name(PROJECT_FILE.name))

    def create_stack(self, stack_name: str) -> None:
        """Creates the stack without resources, or copies the state if this process has created it before."""
        key = (self.project_settings().name, stack_name)
        if key in self._empty_states:
            for path, content in self._empty_states[key].items():
                (self.backend / path).parent.mkdir(parents=True, exist_ok=True)
                (self.backend / path).write_bytes(content)
        else:
            super().create_stack(stack_name)
            files = filter(Path.is_file, self.backend.rglob("*"))
            self._empty_states[key] = {file.relative_to(self.backend): file.read_bytes() for file in files}

    def configure(self, configuration: Configuration) -> None:
        """Writes the stack file. The stack must exist, because its key encrypts the secrets."""
        written: dict[str, Any] = self._read()
        secrets = configuration.secret.items()
        known = {key: self._encrypted[key, text] for key, text in secrets if (key, text) in self._encrypted}
        content = {**written, "config": {**configuration.plain, **known}}
        self._file.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper))
        for key, text in secrets:
            if key not in known:
                # The secret is standard input: every process can read arguments.
                self.run(["config", "set", "--secret", key], text)
                self._encrypted[key, text] = self._read()["config"][key]

    def state(self) -> dict[str, Any]:
        """What `pulumi stack export` prints. The engine would take as long for it as for a preview."""
        (file,) = self.backend.glob(f".pulumi/stacks/*/{self._name}.json")
        state = json.loads(file.read_text())
        deployment = state.pop("checkpoint")["latest"]
        return {**state, "deployment": deployment}

    def _read(self) -> dict[str, Any]:
        """The content of the stack file."""
        return yaml.load(self._file.read_text(), yaml.CSafeLoader)

    def run(self, arguments: list[str], text: str = "") -> str:
        """Runs a command of the engine on the stack and returns its output."""
        command = [*arguments, "--stack", self._name]
        return self._engine.output(command, self._file.parent, self.environment, text)
