"""The course of a whole rehearsal: from an empty cloud through a running stack back to an empty cloud."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rich.console import Console

from engine import project
from engine.plan import Plan
from engine.recorder import Interval, Result
from rehearsal import display
from rehearsal.clock import Clock
from rehearsal.critical_path import Waits, critical_path, waits_of, waves
from rehearsal.errors import RehearsalError
from rehearsal.lock import alone
from rehearsal.session import Rehearsal
from rehearsal.timeline import Phase, svg

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane

RESULTS: Final = project.ROOT / ".rehearsal"
# A minute of the real thing on the clock of `--clock`: long beside the engine's own milliseconds, and
# still a matter of seconds for a whole stack.
_SECONDS_PER_MINUTE: Final = 0.5
_PLATFORM: Final = ("gcp:", "kubernetes:", "pulumi-python:")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is rehearsed.

    Args:
        stack: Name of the stack.
        overrides: Configuration values over the stack file's.
        preview_only: Stop after the preview.
        fail_at: Logical name of a resource whose creation fails once.
        clock: Let operations take their published durations on a scaled clock.
        cluster: Let a local Kubernetes control plane judge and keep the Kubernetes objects.
    """

    stack: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    preview_only: bool = False
    fail_at: str | None = None
    clock: bool = False
    cluster: bool = False


class Course:
    """Rehearses a stack and prints what happens.

    Args:
        options: What is rehearsed.
        console: Where it is printed.
    """

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._results = RESULTS / options.stack
        self._phases: list[tuple[str, Result]] = []

    def run(self) -> bool:
        """Runs to the end; True when everything was as it should be.

        Raises:
            RehearsalError: When an operation fails that should not.
        """
        project.require_stack(self._options.stack)
        with alone(self._results), self._rehearsal() as rehearsal:
            self._say_stand_ins(rehearsal)
            plan = self._preview(rehearsal)
            if self._options.preview_only:
                self._log(f"rehearsal {self._options.stack}: {plan.changed} to create, nothing done")
                return True
            return self._all(rehearsal, plan)

    def _all(self, rehearsal: Rehearsal, plan: Plan) -> bool:
        created = self._fail(rehearsal, plan) if self._options.fail_at else 0
        created += self._up(rehearsal, "up")
        state = rehearsal.state()
        self._write("state.json", json.dumps(state, indent=2) + "\n")
        self._head("second preview")
        again = rehearsal.preview()
        self._console.print(display.tree(again) if again.changed else "nothing would change")
        self._head("refresh")
        drift = rehearsal.refresh().changed
        self._head("destroy")
        destroyed = rehearsal.destroy()
        self._phases.append(("destroy", destroyed))
        left = self._left(rehearsal)
        self._chart(waits_of(state))
        return self._summary(created, again.changed, drift, destroyed.changes.get("delete", 0), left)

    @contextmanager
    def _rehearsal(self) -> Generator[Rehearsal]:
        with self._plane() as plane:
            rehearsal = Rehearsal(
                self._options.stack,
                self._options.overrides,
                clock=Clock(_SECONDS_PER_MINUTE if self._options.clock else 0),
                progress=self._log,
                log=self._log,
                plane=plane,
            )
            with rehearsal:
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

    def _fail(self, rehearsal: Rehearsal, plan: Plan) -> int:
        """The first `up`, which must fail; returns how many resources it had created by then."""
        name = str(self._options.fail_at)
        names = [
            found.name for found in plan.resources if found.type.startswith((*_PLATFORM, "pulumi:providers:"))
        ]
        if name not in names:
            raise RehearsalError(
                f"--fail-at {name}: the plan has no such resource; {project.near(name, names)}"
            )
        self._head(f"up that fails at {name}")
        try:
            rehearsal.up(fail_at=name)
        except RehearsalError as error:
            self._log(f"failed as it should: {error}")
        else:
            raise RehearsalError(f"--fail-at {name}: its creation was to fail but did not")
        self._phases.append((f"up that fails at {name}", rehearsal.last))
        return rehearsal.last.changes.get("create", 0)

    def _up(self, rehearsal: Rehearsal, title: str) -> int:
        self._head(title)
        result = rehearsal.up()
        self._phases.append((title, result))
        return result.changes.get("create", 0)

    def _left(self, rehearsal: Rehearsal) -> int:
        """What still exists, in the cloud or in the state, named one by one."""
        in_state = [resource["urn"] for resource in rehearsal.state()["deployment"].get("resources") or ()]
        in_world = [f"{item.type} {item.id}" for item in rehearsal.cloud.items]
        in_cluster = self._left_in_cluster(rehearsal)
        for what in (*in_state, *in_world, *in_cluster):
            self._log(f"left: {what}")
        return len(in_state) + len(in_world) + len(in_cluster)

    def _left_in_cluster(self, rehearsal: Rehearsal) -> list[str]:
        cluster = rehearsal.cluster
        if cluster is None:
            return []
        left = cluster.left()
        self._log(
            f"control plane: {cluster.written} objects written, {cluster.nodes_made} nodes simulated, "
            f"{len(left)} left in the API server"
        )
        return left

    def _chart(self, waits: Waits) -> None:
        """Writes the timeline and prints the critical path of every operation."""
        unit = "min" if self._options.clock else "s"
        scale = 1 / _SECONDS_PER_MINUTE if self._options.clock else 1.0
        phases = []
        for title, result in self._phases:
            steps = _on_platform(result.intervals, scale)
            path = critical_path(steps, waves(steps) if title == "destroy" else waits)
            phases.append(Phase(title=title, intervals=steps, critical=path))
            self._log(f"critical path of {title}, {display.path_line(path, unit)}")
        self._write("timeline.svg", svg(f"rehearsal of {self._options.stack}", unit, phases))

    def _summary(self, created: int, changed: int, drift: int, destroyed: int, left: int) -> bool:
        self._head("summary")
        if self._options.fail_at:
            self._log(f"the creation of {self._options.fail_at} failed once, the second up went through")
        if drift:
            self._log(f"refresh found {drift} resources that are not as the state says")
        self._log(f"results in {self._results}: plan.json, state.json, timeline.svg")
        counts = (
            f"{created} created, {changed} changed on the second preview, {destroyed} destroyed, {left} left"
        )
        self._log(f"rehearsal {self._options.stack}: {counts}")
        return created == destroyed and not changed and not drift and not left

    def _say_stand_ins(self, rehearsal: Rehearsal) -> None:
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


def _on_platform(intervals: Sequence[Interval], scale: float) -> list[Interval]:
    """The steps that the platform does, from the beginning of the first, in the chart's unit."""
    steps = [step for step in intervals if step.type.startswith(_PLATFORM)]
    origin = min((step.start for step in steps), default=0.0)
    return [
        replace(step, start=(step.start - origin) * scale, end=(step.end - origin) * scale) for step in steps
    ]
