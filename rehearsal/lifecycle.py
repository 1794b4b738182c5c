"""The lifecycle of a stack: from an empty cloud through a running stack back to an empty cloud."""

import json
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console

from engine import project
from engine.lock import held
from engine.plan import Plan
from engine.recorder import Result
from rehearsal import display, schedule
from rehearsal.errors import RehearsalError
from rehearsal.faults import KINDS, Operation
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
        name, kind = self._fault
        if name and name not in names:
            near = project.near(name, names)
            raise RehearsalError(f"--fail-at {self.fail_at}: the plan has no such resource; {near}")
        if kind not in KINDS:
            near = project.near(kind, list(KINDS))
            raise RehearsalError(f"--fail-at {self.fail_at}: there is no such kind of fault; {near}")
        if self.clock:
            phases = schedule.phases(plan.resources)
            for phase in phases:
                _log(f"critical path of {phase.title}, {display.path_line(phase)}")
            (self._results / "timeline.svg").write_text(svg(self.stack, phases))
        return plan

    def _all(self, rehearsal: Rehearsal) -> bool:
        """Everything after the preview."""
        name, kind = self._fault
        created = self._fail(rehearsal, "up", "creation") if name else 0
        orphans = {item.id for item in rehearsal.cloud.items if kind == "orphan" and item.name == name}
        _head("up")
        created += self._up(rehearsal).changes.get("create", 0)
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
        destroyed = self._fail(rehearsal, "destroy", "deletion") if name else 0
        _head("destroy")
        destroyed += rehearsal.destroy().changes.get("delete", 0)
        left = self._left(rehearsal, orphans)
        _head("summary")
        if name:
            _log(f"the creation of {name} failed once, the second up went through")
        if drift:
            _log(f"refresh found {drift} resources that are not as the state says")
        _log(f"results in {self._results}")
        _log(
            f"rehearsal {self.stack}: {created} created, {again.changed} changed on the second preview, "
            f"{destroyed} destroyed, {left} left"
        )
        return created == destroyed and not again.changed and not drift and not left

    @property
    def _fault(self) -> tuple[str, str]:
        """The resource that fails, if one does, and how."""
        name, _, kind = (self.fail_at or "").partition(":")
        return name, kind or "refused"

    def _fail(self, rehearsal: Rehearsal, operation: Literal["up", "destroy"], at: Operation) -> int:
        """A first run, which must fail if it comes to this; returns how many resources it did get done."""
        name, kind = self._fault
        _head(f"{operation} that fails at {name}")
        rehearsal.faults.add([name], kind=kind, at=at)
        try:
            getattr(rehearsal, operation)()
        except RehearsalError as error:
            _log(f"failed as it should: {error}")
        if at == "creation" and name in rehearsal.faults.waiting:
            raise RehearsalError(f"--fail-at {name}: its creation was to fail but did not")
        return rehearsal.last.changes.get("create" if at == "creation" else "delete", 0)

    def _up(self, rehearsal: Rehearsal) -> Result:
        """The `up` after a failed one; where it meets what the state does not know, that is deleted first."""
        try:
            return rehearsal.up()
        except RehearsalError as error:
            said = str(error)
            met = [it for it in rehearsal.cloud.items if f"{it.type} {it.id!r} already exists" in said]
            if not met:
                raise
            _log(f"failed as it should: {said}")
            for item in met:
                _log(f"deleted by hand: {item.type} {item.id}")
                rehearsal.cloud.remove(item)
            done = rehearsal.last.changes.get("create", 0)
            again = rehearsal.up()
            again.changes["create"] = again.changes.get("create", 0) + done
            return again

    def _left(self, rehearsal: Rehearsal, orphans: Collection[str]) -> int:
        """How much still exists, in the state, in the cloud or in the API server, all named one by one."""
        left = [resource["urn"] for resource in rehearsal.state()["deployment"].get("resources") or ()]
        left += [f"{item.type} {item.id}" for item in rehearsal.cloud.items if item.id not in orphans]
        for item in rehearsal.cloud.items:
            if item.id in orphans:
                command = f"python -m operations leftovers --stack {self.stack} --delete"
                _log(f"not in the state, so left: {item.type} {item.id}; `{command}` finds it")
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
