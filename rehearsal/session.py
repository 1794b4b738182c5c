"""One rehearsal: the unchanged program on the real engine, over a fake cloud of its own."""

import json
import os
import runpy
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pulumi.automation as automation
from pulumi.automation._stack import StackInitMode
from pulumi.automation.events import EngineEvent

from cloud.credentials import TOKEN_VARIABLE
from engine import checkouts, lookup, plan, project
from engine.configuration import configuration
from engine.go_build import Log
from engine.plan import Plan
from engine.recorder import Result
from rehearsal import plan_checks
from rehearsal.cloud_build_server import CloudBuildServer
from rehearsal.cloud_run_server import CloudRunServer
from rehearsal.dynamic_provider import dynamic_provider
from rehearsal.errors import RehearsalError
from rehearsal.fake_cloud import CLUSTER, FakeCloud
from rehearsal.fake_google import FakeGoogle
from rehearsal.fake_kubernetes import FakeKubernetes
from rehearsal.fake_provider import FakeProvider
from rehearsal.faults import Faults
from rehearsal.inline_stack import InlineStack, silence
from rehearsal.provider_server import Servicer, serving
from rehearsal.vault import Vault
from rehearsal.workspace import Workspace, folder_of_its_own

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane
    from rehearsal.live_cluster import LiveCluster

# Operations at once; the engine's default depends on the machine's cores.
_PARALLEL: Final = 64


class Rehearsal:
    """A stack in a temporary directory and a fake cloud, for as long as the context.

    Args:
        stack: Name of the stack; its stack file is copied.
        overrides: Configuration values over the stack file's, `{"capacity.type": "spot"}`.
        program: Program to run; by default the project's own `__main__.py`.
        progress: Told every line that the engine prints.
        events: Told every event of the operations that change something; of previews none.
        log: Told what takes long, such as building the engine.
        plane: A running control plane for the stack's Kubernetes objects; without one the fake provider keeps
            them to itself.
        checkout: Where the program and its stack files are.

    Attributes:
        configuration: What the stack file was filled in with.
        cloud: What exists.
        builds: Where the program's image builds go.
        runs: Where the program's executions of Cloud Run jobs go.
        cluster: The stack's cluster on the control plane, None without one.
        faults: Operations that are to fail.
        backend: Folder of the engine's backend.
        last: What the latest operation did, also when it failed.
    """

    def __init__(
        self,
        stack: str,
        overrides: Mapping[str, str] | None = None,
        program: Callable[[], Any] | None = None,
        *,
        progress: Log | None = None,
        events: Callable[[EngineEvent], None] | None = None,
        log: Log = print,
        plane: "ControlPlane | None" = None,
        checkout: Path = project.ROOT,
    ) -> None:
        if program is None:
            project.require_stack(stack, checkout)
        self.stack = stack
        # A test's own program, and one from before, need not wait for what is not there yet.
        self.cloud = FakeCloud(is_slow=program is None and checkout == project.ROOT)
        self._checkout = checkout
        self._overrides = overrides or {}
        self.configuration = configuration(stack, self._overrides, checkout)
        self._program = program or self._run_main
        self._progress = progress
        self._events = events
        self._log = log
        self._plane = plane
        self.faults = Faults()
        self.builds = CloudBuildServer()
        self.runs = CloudRunServer(self.cloud)
        self.cluster: LiveCluster | None = None
        self.last = Result()

    def __enter__(self) -> Self:
        """Starts the fake servers and makes an empty stack."""
        engine = lookup.find(self._log)
        # The program runs in this process: it need not pause before it tries something again.
        os.environ["REHEARSAL_PAUSE_S"] = "0"
        with ExitStack() as started:
            started.enter_context(silence())
            directory = started.enter_context(folder_of_its_own(self.stack))
            self._workspace = Workspace(
                directory, self.stack, engine, self._program, started.enter_context(Vault())
            )
            self._workspace.use(self._checkout)
            self.backend = self._workspace.backend
            started.enter_context(self.builds)
            started.enter_context(self.runs)
            servers = self.builds.configuration | self.runs.configuration
            servicers = {
                "gcp": Servicer(FakeGoogle(self.cloud, self.faults)),
                "kubernetes": Servicer(self._kubernetes()),
                "pulumi-python": dynamic_provider(self.faults, servers),
            }
            self._workspace.environment["PULUMI_DEBUG_PROVIDERS"] = started.enter_context(serving(servicers))
            if self.cluster:
                started.callback(self.cluster.stop)
            self._stack = InlineStack(self.stack, self._workspace, StackInitMode.CREATE)
            self._workspace.configure(self.configuration)
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the fake servers and removes the temporary directory."""
        self._started.close()

    def configure(self, overrides: Mapping[str, str]) -> None:
        """Replaces the overrides; the next operation runs with the new configuration."""
        self._overrides = overrides
        self.configuration = configuration(self.stack, overrides, self._checkout)
        self._workspace.configure(self.configuration)

    def move(self, checkout: Path) -> None:
        """The next operation runs the program of another checkout, with its stack file."""
        self._checkout = checkout
        self._workspace.use(checkout)
        self.configure(self._overrides)

    def preview(self) -> Plan:
        """What `up` would do.

        Raises:
            RehearsalError: With the engine's message, or why a first plan would work by luck or not at all.
        """
        found = plan.read(self._run(self._stack.preview, json=True).stdout)
        wrong = [] if self.cloud.items else plan_checks.problems(found)
        if wrong:
            raise RehearsalError("\n".join(wrong))
        return found

    def up(self, **options: Any) -> Result:
        """Makes the stack as the program says.

        Args:
            options: As of the Automation API's `Stack.up`, such as `replace=[URN]`.

        Raises:
            RehearsalError: With the engine's message.
        """
        return self._operate(self._stack.up, **options)

    def refresh(self) -> Result:
        """Reads what exists into the state; its result's `changed` is the drift."""
        return self._operate(self._stack.refresh)

    def destroy(self, **options: Any) -> Result:
        """Deletes everything in the stack, after the preview that `pulumi destroy` begins with too.

        The preview rejects protected resources before anything is deleted.

        Args:
            options: As of the Automation API's `Stack.destroy`, such as `exclude_protected=True`.
        """
        self._run(self._stack.destroy, preview_only=True, **options)
        destroyed = self._operate(self._stack.destroy, **options)
        if self.cluster and not any(self.cloud.of_type(CLUSTER)):
            self.cluster.sweep()
        return destroyed

    def state(self) -> dict[str, Any]:
        """The stack's exported state; secrets stay encrypted in it."""
        # Not `export_stack`, which asks the engine for the secrets in plain text.
        return json.loads(self.engine(["stack", "export"]))

    def engine(self, arguments: list[str]) -> str:
        """Runs the engine's command on the stack and returns what it prints."""
        return self._workspace.run(arguments)

    def _kubernetes(self) -> FakeProvider:
        if self._plane is None:
            return FakeKubernetes(self.cloud, self.faults)
        # Imported where it is needed: most rehearsals do without.
        from rehearsal.applied_objects import ApplyingKubernetes
        from rehearsal.live_cluster import LiveCluster

        self.cluster = LiveCluster(self._plane, self.cloud)
        return ApplyingKubernetes(self.cloud, self.faults, self.cluster)

    def _operate(self, operation: Callable[..., Any], **options: Any) -> Result:
        options |= {"on_output": self._progress, "show_secrets": False, "suppress_outputs": True}
        self._run(operation, self._events, **options)
        return self.last

    def _run(
        self,
        operation: Callable[..., Any],
        events: Callable[[EngineEvent], None] | None = None,
        **options: Any,
    ) -> Any:
        self.last = result = Result()

        def on_event(event: EngineEvent) -> None:
            result(event)
            if events:
                events(event)

        try:
            with checkouts.using(self._checkout):
                return operation(parallel=_PARALLEL, on_event=on_event, **options)
        except automation.CommandError as error:
            # What the engine printed as errors, without the SDK's frame around it.
            raise RehearsalError(result.message or str(error).partition("stderr:")[2].strip()) from None

    def _run_main(self) -> None:
        """The project's program, as `pulumi up` runs it; of credentials it asks only that there are some."""
        own = os.environ.get(TOKEN_VARIABLE)
        os.environ[TOKEN_VARIABLE] = "of-a-rehearsal"
        try:
            runpy.run_path(str(self._checkout / "__main__.py"), run_name="__main__")
        finally:
            del os.environ[TOKEN_VARIABLE]
            if own is not None:
                os.environ[TOKEN_VARIABLE] = own
