"""One rehearsal: the unchanged program on the real engine, over a cloud of its own."""

import gc
import json
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

import pulumi.automation as automation
import yaml
from pulumi.automation._stack import StackInitMode
from pulumi.runtime import _grpc_settings

from components.cloud_build.context import ARCHIVES
from engine import checkouts, lookup, plan, project
from engine.configuration import configuration
from engine.go_build import Log
from engine.plan import Plan
from engine.recorder import Recorder, Result
from rehearsal import plan_checks
from rehearsal.clock import Clock
from rehearsal.cloud_build_server import CloudBuildServer
from rehearsal.errors import RehearsalError
from rehearsal.fake_cloud import CLUSTER, FakeCloud
from rehearsal.fake_google import FakeGoogle
from rehearsal.fake_kubernetes import FakeKubernetes
from rehearsal.fake_provider import FakeProvider, Server

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane
    from rehearsal.live_cluster import LiveCluster

# One process talks to many engines here, one after the other. A new one may listen on the port of one that
# has gone, and gRPC would refuse it for some seconds without a look, by what it remembers of that port.
_grpc_settings._GRPC_CHANNEL_OPTIONS.append(("grpc.use_local_subchannel_pool", 1))

_PASSPHRASE: Final = "rehearsal"
# Operations at once. The engine's default depends on the machine's cores, the timeline should not.
_PARALLEL: Final = 64


class Rehearsal:
    """A stack that lives in a temporary directory and on stand-in providers, for as long as the context.

    Args:
        stack: Name of the stack; its stack file is copied.
        overrides: Configuration values over the stack file's, `{"capacity.type": "spot"}`.
        program: Program to run; by default the project's own `__main__.py`.
        clock: How long operations take; by default no time at all.
        progress: Told every line that the engine prints.
        log: Told what takes long, such as building the engine.
        plane: A running control plane for the stack's Kubernetes objects; without one the stand-in keeps
            them to itself.
        checkout: Where the program and its stack files are.

    Attributes:
        cloud: What exists on the stand-in platform.
        builds: Where the program's image builds go.
        configuration: What the stack file was filled in with.
        last: What the latest operation did, also when it failed.
        cluster: The stack's cluster on the control plane, None without one.
    """

    def __init__(
        self,
        stack: str,
        overrides: Mapping[str, str] | None = None,
        program: Callable[[], Any] | None = None,
        *,
        clock: Clock | None = None,
        progress: Log | None = None,
        log: Log = print,
        plane: "ControlPlane | None" = None,
        checkout: Path = project.ROOT,
    ) -> None:
        if program is None:
            project.require_stack(stack, checkout)
        self.stack = stack
        self.cloud = FakeCloud()
        self._checkout = checkout
        self._overrides = overrides or {}
        self.configuration = configuration(stack, self._overrides, checkout)
        self._program = program or self._run_main
        self._clock = clock or Clock()
        self.builds = CloudBuildServer(self._clock)
        self._progress = progress
        self._log = log
        self._plane = plane
        self.cluster: LiveCluster | None = None
        self._servers: list[Server] = []
        self._encrypted: dict[tuple[str, str], Any] = {}
        self.last = Result(changes={}, intervals=[], seconds=0.0)

    def __enter__(self) -> Self:
        """Starts the stand-ins and makes an empty stack."""
        self._command = lookup.find(self._log)
        with ExitStack() as started:
            started.callback(_Silence().end)
            started.enter_context(checkouts.restored())
            self._directory = Path(tempfile.mkdtemp(prefix=f"rehearsal-{self.stack}-"))
            started.callback(shutil.rmtree, self._directory, ignore_errors=True)
            started.enter_context(self.builds)
            for stand_in in (FakeGoogle(self.cloud, self._clock), self._kubernetes()):
                server = Server(stand_in)
                started.callback(server.stop)
                self._servers.append(server)
            if self.cluster:
                started.callback(self.cluster.stop)
            started.callback(self._clock.stop)
            self.backend.mkdir()
            self._faults.mkdir()
            self._link_archives()
            self._write_configuration(salt=None)
            self._write_plugin()
            self._workspace = automation.LocalWorkspace(
                work_dir=str(self._directory),
                pulumi_home=str(self._directory / "home"),
                program=self._program,
                env_vars=self._environment(),
                secrets_provider="passphrase",
                pulumi_command=self._command,
            )
            self._stack = _Stack(self.stack, self._workspace, StackInitMode.CREATE)
            self._encrypt_secrets()
            self._started = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops the stand-ins and removes the temporary directory."""
        self._started.close()

    def configure(self, overrides: Mapping[str, str]) -> None:
        """Replaces the overrides; the next operation runs with the new configuration."""
        self._overrides = overrides
        self.configuration = configuration(self.stack, overrides, self._checkout)
        salt = yaml.safe_load(self._stack_file.read_text()).get("encryptionsalt")
        self._write_configuration(salt=salt)
        self._encrypt_secrets()

    def move(self, checkout: Path) -> None:
        """The next operation runs the program of another checkout, with its stack file."""
        self._checkout = checkout
        self.configure(self._overrides)

    def report(self) -> str:
        """What `pulumi preview --json` prints.

        Raises:
            RehearsalError: With the engine's message.
        """
        recorder = Recorder()
        done = self._run(
            recorder, lambda: self._stack.preview(json=True, parallel=_PARALLEL, on_event=recorder)
        )
        return done.stdout

    def preview(self) -> Plan:
        """What `up` would do.

        Raises:
            RehearsalError: With the engine's message.
        """
        calls = self._directory / "calls.json"
        self._workspace.env_vars = {**self._environment(), "PULUMI_DEBUG_GRPC": str(calls)}
        try:
            report = self.report()
            found = plan.read(report, self.last.changes, calls.read_text().splitlines())
        finally:
            self._workspace.env_vars = self._environment()
            calls.unlink(missing_ok=True)
        wrong = [] if self.cloud.items else plan_checks.problems(found)
        if wrong:
            raise RehearsalError("\n".join(wrong))
        return found

    def up(self, fail_at: str | None = None) -> Result:
        """Makes the stack as the program says.

        Args:
            fail_at: Logical name of a resource whose creation fails, in this `up` only.

        Raises:
            RehearsalError: With the engine's message.
        """
        if fail_at:
            self.fail([fail_at])
        try:
            return self._operate("up")
        finally:
            if fail_at:
                self._forget_faults()

    def fail(self, names: Iterable[str]) -> None:
        """Lets the creation of each of these resources fail once, in whichever `up` comes to it."""
        for name in names:
            self.cloud.fail_once(name)
            (self._faults / name).touch()

    @property
    def faults(self) -> set[str]:
        """Names given to `fail` whose creation has not failed yet."""
        return {name for name in self.cloud.faults if (self._faults / name).exists()}

    def refresh(self) -> Result:
        """Reads what exists into the state; its result's `changed` is the drift."""
        return self._operate("refresh")

    def destroy(self) -> Result:
        """Deletes everything in the stack, after the preview that `pulumi destroy` begins with too.

        The preview refuses protected resources before anything is deleted.
        """
        recorder = Recorder()
        self._run(
            recorder,
            lambda: self._stack.destroy(preview_only=True, parallel=_PARALLEL, on_event=recorder),
        )
        destroyed = self._operate("destroy")
        if self.cluster and not any(self.cloud.of_type(CLUSTER)):
            self.cluster.sweep()
        return destroyed

    @property
    def backend(self) -> Path:
        """Folder of the engine's backend, for as long as the context."""
        return self._directory / "state"

    def state(self) -> dict[str, Any]:
        """The stack's exported state; secrets stay encrypted in it."""
        # Not `export_stack`, which asks the engine for the secrets in plain text.
        return json.loads(self.engine(["stack", "export"]))

    def engine(self, arguments: list[str], text: str = "") -> str:
        """Runs the engine's command on the stack and returns what it prints.

        Args:
            arguments: Such as `["stack", "export"]`.
            text: Standard input.
        """
        command = [*arguments, "--stack", self.stack]
        return self._command.run(command, str(self._directory), self._environment(), text=text).stdout

    def _kubernetes(self) -> FakeProvider:
        if self._plane is None:
            return FakeKubernetes(self.cloud, self._clock)
        # Imported where it is needed: most rehearsals do without.
        from rehearsal.applied_objects import ApplyingKubernetes
        from rehearsal.live_cluster import LiveCluster

        self.cluster = LiveCluster(self._plane, self.cloud, self._log)
        return ApplyingKubernetes(self.cloud, self._clock, self.cluster)

    def _operate(self, operation: Literal["up", "refresh", "destroy"]) -> Result:
        recorder = Recorder()
        run = getattr(self._stack, operation)
        self._run(
            recorder,
            lambda: run(
                parallel=_PARALLEL,
                on_event=recorder,
                on_output=self._progress,
                show_secrets=False,
                suppress_outputs=True,
            ),
        )
        return self.last

    def _run(self, recorder: Recorder, operate: Callable[[], Any]) -> Any:
        try:
            return operate()
        except automation.CommandError as error:
            raise RehearsalError(recorder.message or _errors_of(error)) from None
        finally:
            self.last = recorder.result

    @property
    def _stack_file(self) -> Path:
        return self._directory / f"Pulumi.{self.stack}.yaml"

    def _run_main(self) -> None:
        """The project's program, as `pulumi up` runs it."""
        checkouts.use(self._checkout)
        runpy.run_path(str(self._checkout / "__main__.py"), run_name="__main__")

    def _write_configuration(self, salt: str | None) -> None:
        secrets = {
            key: self._encrypted[key, value]
            for key, value in self.configuration.secret.items()
            if (key, value) in self._encrypted
        }
        settings = {"config": {**self.configuration.plain, **secrets}}
        name = project.PROJECT_FILE.name
        shutil.copyfile(self._checkout / name, self._directory / name)
        self._stack_file.write_text(
            yaml.safe_dump({**settings, **({"encryptionsalt": salt} if salt else {})})
        )

    def _write_plugin(self) -> None:
        """The provider of dynamic resources, which the official engine brings along and a built one lacks."""
        plugin = self._plugins / "pulumi-resource-pulumi-python"
        plugin.parent.mkdir()
        program = project.ROOT / "rehearsal" / "dynamic_plugin.py"
        run = f'PYTHONPATH="{project.ROOT}" exec "{sys.executable}" -u -P "{program}" "$@"'
        plugin.write_text(f"#!/bin/sh\n{run}\n")
        plugin.chmod(0o700)

    @property
    def _plugins(self) -> Path:
        return self._directory / "plugins"

    @property
    def _faults(self) -> Path:
        """Files that tell the plugin, a process of its own, what the stand-ins read in the cloud."""
        return self._directory / "faults"

    def _forget_faults(self) -> None:
        self.cloud.forget_faults()
        for file in self._faults.iterdir():
            file.unlink()

    def _link_archives(self) -> None:
        """The program writes build contexts relative to where it runs, and the engine reads them relative
        to where it runs itself; under `pulumi up` that is one place."""
        (self._directory / ARCHIVES).symlink_to(Path.cwd() / ARCHIVES, target_is_directory=True)

    def _encrypt_secrets(self) -> None:
        """Hands secrets to the engine through its standard input: arguments are open to every process."""
        for key, value in self.configuration.secret.items():
            if (key, value) not in self._encrypted:
                self.engine(["config", "set", "--secret", key], text=value)
                written = yaml.safe_load(self._stack_file.read_text())
                self._encrypted[key, value] = written["config"][key]

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self._plugins}{os.pathsep}{os.environ['PATH']}",
            **self.builds.environment,
            "REHEARSAL_FAULTS": str(self._faults),
            "PULUMI_BACKEND_URL": f"file://{self.backend}",
            "PULUMI_HOME": str(self._directory / "home"),
            "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
            "PULUMI_DEBUG_PROVIDERS": ",".join(server.address for server in self._servers),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        }


class _Stack(automation.Stack):
    """A stack that does not run the engine three more times after each operation for what the state says."""

    def outputs(self) -> automation.OutputMap:
        """Nothing; see `Rehearsal.state`."""
        return {}

    def info(self, show_secrets: bool = False) -> automation.UpdateSummary:
        """Nothing; see `Result`."""
        return cast(automation.UpdateSummary, object())


class _Silence:
    """Drops what the SDK leaves of a program when the engine ends an operation half-way.

    It closes the event loop with coroutines still waiting in it, and each complains when it is freed,
    whenever that is.
    """

    def __init__(self) -> None:
        self._shown = sys.unraisablehook
        sys.unraisablehook = self._show

    def end(self) -> None:
        """Frees what is left and shows again what cannot be raised."""
        gc.collect()
        sys.unraisablehook = self._shown

    def _show(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if getattr(unraisable.object, "__name__", "") != "run_pulumi_func":
            self._shown(unraisable)


def _errors_of(error: automation.CommandError) -> str:
    """What the engine printed as errors, without the SDK's frame around it."""
    return str(error).partition("stderr:")[2].strip()
