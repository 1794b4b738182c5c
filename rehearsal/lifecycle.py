"""Rehearses the lifecycle of a stack: it is created in an empty cloud, checked and destroyed."""

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine import project
from engine.lock import held
from engine.plan import Plan
from rehearsal import schedule
from rehearsal.capacity_search import tries_of, way_through
from rehearsal.display import OperationLog, head, path_line, say, show_plan
from rehearsal.errors import RehearsalError
from rehearsal.fakes.faults import KINDS, Operation, kinds_of
from rehearsal.fakes.provider import change_by_hand
from rehearsal.session import Rehearsal

if TYPE_CHECKING:
    from rehearsal.control_plane import ControlPlane

PHASES: Final = ("preview", "up", "second preview", "refresh", "protection", "destroy", "summary")
RESULTS: Final = project.ROOT / ".rehearsal"


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Rehearses a stack and prints what happens. The attributes are the options of the command line."""

    stack: str
    overrides: Mapping[str, str]
    preview: bool
    fail_at: str | None
    constraints: Sequence[str]
    clock: bool
    cluster: bool
    stockouts: Sequence[str]
    verbose: bool

    def run(self) -> bool:
        """Rehearses the whole lifecycle, or the preview alone. Returns whether nothing changed or is left.

        Raises:
            RehearsalError: If an operation fails without a fault.
        """
        project.require_stack(self.stack)
        output: dict[str, Any] = {"progress": say} if self.verbose else {"events": OperationLog(say)}
        with (
            held(self._results, self._busy),
            self._plane() as plane,
            Rehearsal(self.stack, self.overrides, log=say, plane=plane, **output) as rehearsal,
        ):
            rehearsal.cloud.constraints = tuple(self.constraints)
            for key in rehearsal.configuration.fake:
                value = rehearsal.configuration.plain.get(key, "[secret]")
                say(f"{key} is not in the stack file; the rehearsal uses {value}")
            plan = self._plan(rehearsal)
            if not self.preview:
                return self._all(rehearsal)
        say(f"rehearsal {self.stack}: {plan.changed} to create, nothing done")
        return True

    def _plan(self, rehearsal: Rehearsal) -> Plan:
        head("preview")
        plan = rehearsal.preview()
        show_plan(plan)
        say(f"{plan.changed} to create")
        for warning in plan.warnings:
            say(f"warning: {warning}")
        (self._results / "plan.json").write_text(plan.as_json())
        self._check_fault(plan)
        if self.clock:
            for phase in schedule.phases(plan.resources):
                say(f"critical path of {phase.title}, {path_line(phase)}")
        self._tell_of_stockouts(plan)
        return plan

    def _tell_of_stockouts(self, plan: Plan) -> None:
        """Prints how the job gets its nodes from a list of capacities.

        Raises:
            RehearsalError: If `--stockout` has no effect.
        """
        tries = tries_of(plan)
        unknown = [
            capacity for capacity in self.stockouts if capacity not in {entry.capacity for entry in tries}
        ]
        if unknown:
            listed = ", ".join(entry.capacity for entry in tries) or "no list of capacities"
            raise RehearsalError(f"--stockout {unknown[0]}: the stack has {listed}; see capacity.type")
        if self.stockouts or (tries and self.clock):
            for line in way_through(tries, self.stockouts):
                say(f"nodes, {line}")

    def _check_fault(self, plan: Plan) -> None:
        """Raises RehearsalError if the resource or the kind of `--fail-at` does not exist."""
        types = {resource.name: resource.type for resource in plan.resources if schedule.can_fail(resource)}
        name, kind = self._fault
        if name and name not in types:
            near = project.near(name, list(types))
            raise RehearsalError(f"--fail-at {self.fail_at}: the plan has no such resource; {near}")
        if kind not in KINDS:
            near = project.near(kind, list(KINDS))
            raise RehearsalError(f"--fail-at {self.fail_at}: there is no such kind of fault; {near}")
        if name and kind not in kinds_of(types[name]):
            raise RehearsalError(
                f"--fail-at {self.fail_at}: its provider keeps nothing that failed; take another kind, such "
                "as orphan"
            )

    def _all(self, rehearsal: Rehearsal) -> bool:
        """Everything after the preview."""
        name, kind = self._fault
        if rehearsal.cluster:
            for capacity in self.stockouts:
                rehearsal.cluster.nodes.stock.set(capacity, 0)
        self._run(rehearsal, "up", "creation")
        if rehearsal.cluster and self.stockouts:
            head("nodes")
            for line in rehearsal.cluster.search():
                say(line)
        state = rehearsal.state()
        (self._results / "state.json").write_text(json.dumps(state, indent=2) + "\n")
        existing = {item.id for item in rehearsal.cloud.items if kind == "orphan"}
        orphans = existing - {resource.get("id") for resource in _resources(state)}
        stays = {resource["id"] for resource in _resources(state) if resource.get("retainOnDelete")}
        head("second preview")
        again = rehearsal.preview()
        show_plan(again)
        head("refresh")
        drift = rehearsal.refresh().changed
        if not self.cluster and self._change_by_hand(rehearsal, name):
            head(f"refresh after somebody has changed {name}")
            rehearsal.refresh()
            self._run(rehearsal, "up", "update")
        head("protection")
        if not rehearsal.release():
            say("nothing is protected")
        self._run(rehearsal, "destroy", "deletion")
        left = self._left(rehearsal, orphans, stays)
        head("summary")
        if name:
            say(f"what failed at {name} went through the second time")
        if drift:
            say(f"refresh found {drift} resources that are not as the state says")
        say(f"results in {os.path.relpath(self._results)}")
        created, kept = len(_resources(state)), len(_resources(rehearsal.state()))
        say(
            f"rehearsal {self.stack}: {created} created, {again.changed} changed on the second preview, "
            f"{created - kept} destroyed, {left} left"
        )
        return not again.changed and not drift and not left

    @staticmethod
    def _change_by_hand(rehearsal: Rehearsal, name: str) -> bool:
        """Changes a resource as a person may in a console. Returns whether `up` can undo that."""
        items = [item for item in rehearsal.cloud.items if item.name == name]
        changes = [change_by_hand(item) for item in items]
        return any(changes)

    @property
    def _fault(self) -> tuple[str, str]:
        """The name of the resource that fails, empty for none, and the kind of fault."""
        name, _, kind = (self.fail_at or "").partition(":")
        return name, kind or "refused"

    def _run(self, rehearsal: Rehearsal, verb: str, at: Operation) -> None:
        """Repeats `up` or `destroy` until it succeeds. It fails by the fault, then by the fault's orphan."""
        name, kind = self._fault
        rehearsal.faults.add([name] if name else [], kind=kind, at=at)
        head(f"{verb} that fails at the {at} of {name}" if name else verb)
        while True:
            triggered = len(rehearsal.faults.triggered)
            try:
                getattr(rehearsal, verb)()
                break
            except RehearsalError as error:
                blocking = rehearsal.cloud.named_in(str(error))
                if not blocking and len(rehearsal.faults.triggered) == triggered:
                    raise
                say(f"failed as it should: {error}")
            for item in blocking:
                say(f"deleted by hand: {item.type} {item.id}")
                rehearsal.cloud.remove(item)
            head(verb)
        if at != "deletion" and name in rehearsal.faults.pending:
            raise RehearsalError(f"--fail-at {name}: its {at} was to fail but did not")

    def _left(self, rehearsal: Rehearsal, orphans: Collection[str], stays: Collection[str]) -> int:
        """Prints what still exists in the state, the cloud and the API server. Returns how much it is.

        What stays on purpose does not count.
        """
        left = [resource["urn"] for resource in _resources(rehearsal.state())]
        known = {*orphans, *stays}
        left += [f"{item.type} {item.id}" for item in rehearsal.cloud.items if item.id not in known]
        for item in rehearsal.cloud.items:
            if item.id in stays:
                say(f"stays, because others may have given the same right: {item.type} {item.id}")
            if item.id in orphans:
                command = f"python -m operations leftovers --stack {self.stack}"
                say(f"not in the state, so left: {item.type} {item.id}; `{command}` finds it")
        if cluster := rehearsal.cluster:
            objects = cluster.left()
            say(
                f"control plane: {cluster.written} objects written, {cluster.nodes.added} nodes simulated, "
                f"{len(objects)} left in the API server"
            )
            left += objects
        for line in left:
            say(f"left: {line}")
        return len(left)

    def _plane(self) -> "AbstractContextManager[ControlPlane | None]":
        if not self.cluster:
            return nullcontext()
        from rehearsal.control_plane import ControlPlane

        return ControlPlane(say)

    def _busy(self) -> None:
        raise RehearsalError(f"a rehearsal of {self.stack} is under way; wait for its end")

    @property
    def _results(self) -> Path:
        return RESULTS / self.stack


def _resources(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The resources in a state that a plan has too: the engine adds default providers by itself."""
    resources = state["deployment"].get("resources") or ()
    is_default = re.compile("::pulumi:providers:[^:]+::default").search
    return [resource for resource in resources if not is_default(resource["urn"])]
