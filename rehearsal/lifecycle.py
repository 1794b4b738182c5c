"""The lifecycle of a stack: from an empty cloud through a running stack back to an empty cloud."""

import json
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.console import Console

from engine import project
from engine.plan import Plan
from rehearsal import display, schedule
from rehearsal.errors import RehearsalError
from rehearsal.lock import alone
from rehearsal.session import Rehearsal
from rehearsal.timeline import svg

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane

RESULTS: Final = project.ROOT / ".rehearsal"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is rehearsed.

    Args:
        stack: Name of the stack.
        overrides: Configuration values over the stack file's.
        preview_only: Stop after the preview.
        fail_at: Logical name of a resource whose creation fails once.
        clock: Say how long the real thing takes.
        cluster: Let a local Kubernetes control plane judge and keep the Kubernetes objects.
    """

    stack: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    preview_only: bool = False
    fail_at: str | None = None
    clock: bool = False
    cluster: bool = False


class Lifecycle:
    """Rehearses a stack and prints what happens.

    Args:
        options: What is rehearsed.
        console: Where it is printed.
    """

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._results = RESULTS / options.stack

    def run(self) -> bool:
        """Runs to the end; True when everything was as it should be.

        Raises:
            RehearsalError: When an operation fails that should not.
        """
        project.require_stack(self._options.stack)
        with alone(self._results), self._rehearsal() as rehearsal:
            self._log_fake_values(rehearsal)
            plan = self._preview(rehearsal)
            if self._options.fail_at:
                self._require(self._options.fail_at, plan)
            written = ["plan.json"]
            if self._options.clock:
                self._compute_time(plan)
                written.append("timeline.svg")
            if self._options.preview_only:
                self._log(f"rehearsal {self._options.stack}: {plan.changed} to create, nothing done")
                return True
            return self._all(rehearsal, [*written, "state.json"])

    def _all(self, rehearsal: Rehearsal, written: list[str]) -> bool:
        created = self._fail(rehearsal) if self._options.fail_at else 0
        self._head("up")
        created += rehearsal.up().changes.get("create", 0)
        self._write("state.json", json.dumps(rehearsal.state(), indent=2) + "\n")
        self._head("second preview")
        again = rehearsal.preview()
        self._console.print(display.tree(again) if again.changed else "nothing would change")
        self._head("refresh")
        drift = rehearsal.refresh().changed
        self._head("destroy")
        destroyed = rehearsal.destroy().changes.get("delete", 0)
        left = self._left(rehearsal)
        self._head("summary")
        if self._options.fail_at:
            self._log(f"the creation of {self._options.fail_at} failed once, the second up went through")
        if drift:
            self._log(f"refresh found {drift} resources that are not as the state says")
        self._log(f"results in {self._results}: {', '.join(sorted(written))}")
        self._log(
            f"rehearsal {self._options.stack}: {created} created, "
            f"{again.changed} changed on the second preview, {destroyed} destroyed, {left} left"
        )
        return created == destroyed and not again.changed and not drift and not left

    @contextmanager
    def _rehearsal(self) -> Generator[Rehearsal]:
        with (
            self._plane() as plane,
            Rehearsal(
                self._options.stack,
                self._options.overrides,
                progress=self._log,
                log=self._log,
                plane=plane,
            ) as rehearsal,
        ):
            yield rehearsal

    def _plane(self) -> "AbstractContextManager[ControlPlane | None]":
        if not self._options.cluster:
            return nullcontext()
        from rehearsal.control_plane import ControlPlane

        return ControlPlane(self._log)

    def _preview(self, rehearsal: Rehearsal) -> Plan:
        self._head("preview")
        plan = rehearsal.preview()
        self._console.print(display.tree(plan))
        self._write("plan.json", plan.as_json())
        return plan

    def _require(self, name: str, plan: Plan) -> None:
        """Refuses a fault at what is not in the plan."""
        names = [resource.name for resource in plan.resources if schedule.can_fail(resource)]
        if name not in names:
            raise RehearsalError(
                f"--fail-at {name}: the plan has no such resource; {project.near(name, names)}"
            )

    def _compute_time(self, plan: Plan) -> None:
        """Writes the timeline and prints what decides how long each phase takes."""
        phases = schedule.phases(plan.resources, self._options.fail_at)
        for phase in phases:
            self._log(f"critical path of {phase.title}, {display.path_line(phase)}")
        self._write("timeline.svg", svg(f"{self._options.stack}, computed", phases))

    def _fail(self, rehearsal: Rehearsal) -> int:
        """The first `up`, which must fail; returns how many resources it had created by then."""
        name = str(self._options.fail_at)
        self._head(f"up that fails at {name}")
        try:
            rehearsal.up(fail_at=name)
        except RehearsalError as error:
            self._log(f"failed as it should: {error}")
        else:
            raise RehearsalError(f"--fail-at {name}: its creation was to fail but did not")
        return rehearsal.last.changes.get("create", 0)

    def _left(self, rehearsal: Rehearsal) -> int:
        """What still exists, in the state, in the cloud or in the API server, named one by one."""
        left = [resource["urn"] for resource in rehearsal.state()["deployment"].get("resources") or ()]
        left += [f"{item.type} {item.id}" for item in rehearsal.cloud.items]
        if cluster := rehearsal.cluster:
            objects = cluster.left()
            self._log(
                f"control plane: {cluster.written} objects written, {cluster.nodes_made} nodes simulated, "
                f"{len(objects)} left in the API server"
            )
            left += objects
        for what in left:
            self._log(f"left: {what}")
        return len(left)

    def _log_fake_values(self, rehearsal: Rehearsal) -> None:
        configuration = rehearsal.configuration
        for key in configuration.stood_in:
            value = configuration.plain.get(key, "[secret]")
            self._log(f"{key} is not in the stack file; the rehearsal uses {value}")

    def _write(self, name: str, text: str) -> None:
        (self._results / name).write_text(text)

    def _head(self, title: str) -> None:
        self._console.rule(title, align="left")

    def _log(self, text: str) -> None:
        self._console.out(text, highlight=False)
