"""A rehearsal: the unchanged program on the real engine, with its own fake cloud."""

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
from rehearsal.errors import RehearsalError
from rehearsal.fakes import existing_resources as foreign
from rehearsal.fakes import finished_run
from rehearsal.fakes.cloud import CLUSTER, FakeCloud
from rehearsal.fakes.cloud_build_server import CloudBuildServer
from rehearsal.fakes.cloud_run_server import CloudRunServer
from rehearsal.fakes.dynamic_provider import dynamic_provider
from rehearsal.fakes.faults import Faults
from rehearsal.fakes.google import FakeGoogle
from rehearsal.fakes.kubernetes import FakeKubernetes
from rehearsal.fakes.provider import FakeProvider
from rehearsal.fakes.provider_server import Servicer, serving
from rehearsal.fakes.vault import Vault
from rehearsal.inline_stack import InlineStack, silence
from rehearsal.stand_ins.bucket import Buckets
from rehearsal.workspace import Workspace, folder_of_its_own

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane
    from rehearsal.live.cluster import LiveCluster

# Operations at the same time. The engine's default depends on the machine's cores.
_PARALLEL: Final = 64
# The engine's words about a protected resource, after its URN.
_PROTECTED: Final = "because it is protected"
# The end of the URN of every stack's bucket, as in components/storage/bucket.py.
_OF_THE_BUCKET: Final = "**-bucket"


class Rehearsal:
    """A stack in a temporary directory and a fake cloud. The object is a context.

    Args:
        stack: Name of the stack. Its stack file is copied.
        overrides: Configuration values in place of the stack file's, such as `{"capacity.type": "spot"}`.
        program: Program to run, by default the project's own `__main__.py`.
        progress: Receives every line that the engine prints.
        events: Receives every event of an `up`, a `refresh` or a `destroy`, and none of a preview.
        log: Receives a line before a step that takes long, such as building the engine.
        plane: A running control plane for the stack's Kubernetes objects. Without one, the fake provider
            keeps them in memory.
        checkout: Folder of the program and its stack files.

    Attributes:
        configuration: The complete configuration of the stack.
        cloud: The fake cloud.
        builds: The fake Cloud Build, which builds the program's images.
        runs: The fake Cloud Run, which runs the executions of the program's jobs.
        buckets: Folder of the buckets in which the program looks for finished runs. None makes one, with the
            run that the stack's settings name.
        cluster: The stack's cluster on the control plane, None without a control plane.
        faults: Operations that fail on purpose.
        backend: Folder of the engine's backend.
        last: The result of the latest operation, also if it failed.
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
        # A test's own program, and an old one, may not retry a first call that is refused.
        self.cloud = FakeCloud(is_slow=program is None and checkout == project.ROOT)
        self._checkout = checkout
        self._overrides = overrides or {}
        self._read_configuration()
        self._program = program or self._run_main
        self._progress = progress
        self._events = events
        self._log = log
        self._plane = plane
        self.faults = Faults()
        self.builds = CloudBuildServer(lambda: self.cloud.constraints)
        self.runs = CloudRunServer(self.cloud)
        self.buckets: Path | None = None
        self.cluster: LiveCluster | None = None
        self.last = Result()

    def __enter__(self) -> Self:
        """Starts the fake servers and creates an empty stack."""
        engine = lookup.find(self._log)
        # The program runs in this process, and does not pause before a retry.
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
            if not self.buckets:
                self.buckets = directory / "buckets"
                finished_run.write_served_run(self.configuration.plain, self.buckets)
            storage = started.enter_context(Buckets(self.buckets))
            servers = self.builds.configuration | self.runs.configuration | storage.configuration
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
        """Replaces the overrides. The next operation has the new configuration."""
        self._overrides = overrides
        self._read_configuration()
        self._workspace.configure(self.configuration)

    def move(self, checkout: Path) -> None:
        """Makes the next operations run the program of another checkout, with its stack file."""
        self._checkout = checkout
        self._workspace.use(checkout)
        self.configure(self._overrides)

    def preview(self) -> Plan:
        """The plan of the next `up`.

        Raises:
            RehearsalError: With the engine's message, or with the problems of a stack's first plan.
        """
        planned = plan.read(self._run(self._stack.preview, json=True).stdout)
        problems = [] if self.cloud.items else plan_checks.problems(planned)
        if problems:
            raise RehearsalError("\n".join(problems))
        return planned

    def up(self, **options: Any) -> Result:
        """Creates or changes the stack as the program declares it.

        Args:
            options: Options of the Automation API's `Stack.up`, such as `replace=[URN]`.

        Raises:
            RehearsalError: With the engine's message.
        """
        return self._operate(self._stack.up, **options)

    def refresh(self) -> Result:
        """Reads what exists into the state. `changed` of the result counts the resources that differ."""
        return self._operate(self._stack.refresh)

    def destroy(self, **options: Any) -> Result:
        """Previews the destruction, as `pulumi destroy` does, and deletes everything in the stack.

        The preview rejects protected resources before anything is deleted.

        Args:
            options: Options of the Automation API's `Stack.destroy`, such as `exclude_protected=True`.
        """
        self._run(self._stack.destroy, preview_only=True, **options)
        return self._delete(**options)

    def remove(self) -> Result:
        """Deletes everything, also a bucket that is protected."""
        self.release()
        return self._delete()

    def release(self) -> bool:
        """Lets `destroy` delete the bucket, with the commands of a person whose `destroy` was refused.

        Returns whether it was refused.
        """
        try:
            self._run(self._stack.destroy, preview_only=True)
            return False
        except RehearsalError as error:
            refusal, protected, _ = str(error).partition(_PROTECTED)
            if not protected:
                raise
            self._log(f"pulumi destroy: {' '.join(refusal.split())} {protected}")
        self._log(f"pulumi config set forceDestroy true && pulumi up --target '{_OF_THE_BUCKET}'")
        self.configure({**self._overrides, "forceDestroy": "true"})
        try:
            self.up(target=[_OF_THE_BUCKET])
        except RehearsalError as error:
            # An `up` that awaits a training fails while the training counts as failed.
            if not any(step == "update" for step, _ in self.last.steps):
                raise
            self._log(f"pulumi up: {error}")
        return True

    def _delete(self, **options: Any) -> Result:
        destroyed = self._operate(self._stack.destroy, **options)
        if self.cluster and not any(self.cloud.of_type(CLUSTER)):
            self.cluster.sweep()
        return destroyed

    def state(self) -> dict[str, Any]:
        """The stack's exported state, with encrypted secrets."""
        return self._workspace.state()

    def engine(self, arguments: list[str]) -> str:
        """Runs a command of the engine on the stack and returns its output."""
        return self._workspace.run(arguments)

    def _read_configuration(self) -> None:
        self.configuration = configuration(self.stack, self._overrides, self._checkout)
        self.cloud.foreign = foreign.items(self.configuration.plain, project.project_name())

    def _kubernetes(self) -> FakeProvider:
        if self._plane is None:
            return FakeKubernetes(self.cloud, self.faults)
        # Most rehearsals do not need these modules.
        from rehearsal.live.applied_objects import ApplyingKubernetes
        from rehearsal.live.cluster import LiveCluster

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
            # The engine's errors, without the text that the SDK adds.
            raise RehearsalError(result.message or str(error).partition("stderr:")[2].strip()) from None

    def _run_main(self) -> None:
        """Runs the project's program as `pulumi up` does. The program only asks whether credentials exist."""
        own = os.environ.get(TOKEN_VARIABLE)
        os.environ[TOKEN_VARIABLE] = "of-a-rehearsal"
        try:
            runpy.run_path(str(self._checkout / "__main__.py"), run_name="__main__")
        finally:
            del os.environ[TOKEN_VARIABLE]
            if own is not None:
                os.environ[TOKEN_VARIABLE] = own
