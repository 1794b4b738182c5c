"""The lifecycle of a stack: from an empty cloud through a running stack back to an empty cloud."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from engine import project
from engine.lock import held
from engine.plan import Plan
from rehearsal import display, schedule
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from rehearsal.timeline import svg

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane

RESULTS: Final = project.ROOT / ".rehearsal"
_CONSOLE: Final = Console()


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Rehearses a stack and prints what happens; the options are those of the command line."""

    stack: str
    overrides: Mapping[str, str]
    preview: bool
    fail_at: str | None
    clock: bool
    cluster: bool

    def run(self) -> bool:
        """Runs to the end; True when everything was as it should be.

        Raises:
            RehearsalError: When an operation fails that should not.
        """
        project.require_stack(self.stack)
        with (
            held(self._results, self._busy),
            self._plane() as plane,
            Rehearsal(self.stack, self.overrides, progress=_log, log=_log, plane=plane) as rehearsal,
        ):
            for key in rehearsal.configuration.fake:
                value = rehearsal.configuration.plain.get(key, "[secret]")
                _log(f"{key} is not in the stack file; the rehearsal uses {value}")
            plan = self._plan(rehearsal)
            if not self.preview:
                return self._all(rehearsal)
        _log(f"rehearsal {self.stack}: {plan.changed} to create, nothing done")
        return True

    def _plan(self, rehearsal: Rehearsal) -> Plan:
        _head("preview")
        plan = rehearsal.preview()
        _CONSOLE.print(display.tree(plan))
        for warning in plan.warnings:
            _log(f"warning: {warning}")
        (self._results / "plan.json").write_text(plan.as_json())
        names = [resource.name for resource in plan.resources if schedule.can_fail(resource)]
        if self.fail_at and self.fail_at not in names:
            near = project.near(self.fail_at, names)
            raise RehearsalError(f"--fail-at {self.fail_at}: the plan has no such resource; {near}")
        if self.clock:
            phases = schedule.phases(plan.resources, self.fail_at)
            for phase in phases:
                _log(f"critical path of {phase.title}, {display.path_line(phase)}")
            (self._results / "timeline.svg").write_text(svg(self.stack, phases))
        return plan

    def _all(self, rehearsal: Rehearsal) -> bool:
        """Everything after the preview."""
        created = self._fail(rehearsal, self.fail_at) if self.fail_at else 0
        _head("up")
        created += rehearsal.up().changes.get("create", 0)
        (self._results / "state.json").write_text(json.dumps(rehearsal.state(), indent=2) + "\n")
        if self.cluster:
            # Imported where it is needed: most rehearsals do without.
            from rehearsal import ray_courses

            for training in ray_courses.trainings(rehearsal):
                _head("courses of the training, by KubeRay's operator")
                for outcome in ray_courses.play(training):
                    _log(outcome)
        _head("second preview")
        again = rehearsal.preview()
        _CONSOLE.print(display.tree(again) if again.changed else "nothing would change")
        _head("refresh")
        drift = rehearsal.refresh().changed
        _head("destroy")
        destroyed = rehearsal.destroy().changes.get("delete", 0)
        left = self._left(rehearsal)
        _head("summary")
        if self.fail_at:
            _log(f"the creation of {self.fail_at} failed once, the second up went through")
        if drift:
            _log(f"refresh found {drift} resources that are not as the state says")
        _log(f"results in {self._results}")
        _log(
            f"rehearsal {self.stack}: {created} created, {again.changed} changed on the second preview, "
            f"{destroyed} destroyed, {left} left"
        )
        return created == destroyed and not again.changed and not drift and not left

    def _fail(self, rehearsal: Rehearsal, name: str) -> int:
        """The first `up`, which must fail; returns how many resources it had created by then."""
        _head(f"up that fails at {name}")
        try:
            rehearsal.faults.add([name])
            rehearsal.up()
        except RehearsalError as error:
            _log(f"failed as it should: {error}")
            return rehearsal.last.changes.get("create", 0)
        raise RehearsalError(f"--fail-at {name}: its creation was to fail but did not")

    def _left(self, rehearsal: Rehearsal) -> int:
        """What still exists, in the state, in the cloud or in the API server, named one by one."""
        left = [resource["urn"] for resource in rehearsal.state()["deployment"].get("resources") or ()]
        left += [f"{item.type} {item.id}" for item in rehearsal.cloud.items]
        if cluster := rehearsal.cluster:
            objects = cluster.left()
            _log(
                f"control plane: {cluster.written} objects written, {cluster.nodes.made} nodes simulated, "
                f"{len(objects)} left in the API server"
            )
            left += objects
        for what in left:
            _log(f"left: {what}")
        return len(left)

    def _plane(self) -> "AbstractContextManager[ControlPlane | None]":
        if not self.cluster:
            return nullcontext()
        from rehearsal.control_plane import ControlPlane

        return ControlPlane(_log)

    def _busy(self) -> None:
        raise RehearsalError(f"a rehearsal of {self.stack} is under way; wait for its end")

    @property
    def _results(self) -> Path:
        return RESULTS / self.stack


def _head(title: str) -> None:
    _CONSOLE.rule(title, align="left")


def _log(text: str) -> None:
    _CONSOLE.out(text, highlight=False)
