"""What fails anywhere, in any way, is mended by the next `up` or `destroy`, and nothing is left."""

import json
import os
import re
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError
from rehearsal.control_plane.api import until
from rehearsal.errors import RehearsalError
from rehearsal.fake_cloud import CLUSTER, Item
from rehearsal.fake_provider import spoil
from rehearsal.faults import Operation, kinds_of
from rehearsal.session import Rehearsal
from tests import inventory, plans

# Stack, logical name, operation.
Place = tuple[str, str, Operation]


@cache
def rows(stack: str) -> dict[str, dict[str, Any]]:
    """What a provider is asked for, by its logical name."""
    return {row["name"]: row for row in inventory.written(stack) if ":components:" not in row["type"]}


@cache
def waits(stack: str) -> dict[str, list[str]]:
    """What each of these waits for."""
    named = {f"{row['type'].rpartition(':')[2]} {name}": name for name, row in rows(stack).items()}
    found = {name: [*row.get("dependsOn", ()), row.get("provider")] for name, row in rows(stack).items()}
    return {name: [named[each] for each in waited if each in named] for name, waited in found.items()}


@cache
def faults() -> dict[Place, list[str]]:
    """Each kind of fault for every type, at the operations at which the stacks run as seldom as can be."""
    places: dict[str, list[Place]] = defaultdict(list)
    for stack in plans.STACKS:
        for name, row in rows(stack).items():
            type_ = row["type"]
            if type_.startswith("pulumi:"):
                continue
            places[type_].append((stack, name, "creation"))
            if not type_.startswith("pulumi-python:") and spoil(Item(type_, "", name, row["inputs"], {})):
                places[type_].append((stack, name, "update"))
            if "deletedWith" not in row:
                places[type_].append((stack, name, "deletion"))
    given: dict[Place, list[str]] = defaultdict(list)
    for type_, of_type in sorted(places.items(), key=lambda item: len(item[1])):
        for kind in kinds_of(type_):
            given[min(of_type, key=lambda place: (more_runs(place, given), len(given[place])))].append(kind)
    return given


def more_runs(place: Place, given: dict[Place, list[str]]) -> int:
    """How many runs more a fault is: what waits for something that fails comes to its own in a later run."""
    stack, at, operation = place

    @cache
    def runs(name: str, more: bool) -> int:
        own = len(given.get((stack, name, operation), ())) + (more and name == at)
        return own + max((runs(each, more) for each in waits(stack)[name]), default=0)

    before, then = (max(runs(name, more) for name in rows(stack)) for more in (False, True))
    return then - before


def test_each_kind_of_fault_meets_each_type() -> None:
    met = {(rows(at)[name]["type"], kind) for (at, name, _), found in faults().items() for kind in found}
    types = {row["type"] for stack in plans.STACKS for row in rows(stack).values()}
    asked = {type_ for type_ in types if not type_.startswith("pulumi:")}
    assert met == {(type_, kind) for type_ in asked for kind in kinds_of(type_)}


@pytest.mark.parametrize("stack", plans.STACKS)
def test_whatever_fails_is_made_good_by_the_next_up_or_destroy(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creations, updates of what somebody has changed, deletions; each run meets all that it comes to."""
    monkeypatch.setenv("PULUMI_CONTINUE_ON_ERROR", "true")
    with Rehearsal(stack) as rehearsal:
        repeat(rehearsal, rehearsal.up, "creation")
        for item in rehearsal.cloud.items:
            if (stack, item.name, "update") in faults():
                spoil(item)
        rehearsal.refresh()
        repeat(rehearsal, rehearsal.up, "update")
        assert rehearsal.preview().changed == 0
        repeat(rehearsal, rehearsal.destroy, "deletion")
        # What was made without an answer is met by its name, if that is fixed; of an automatic one it stays.
        automatic = re.compile(r"-[0-9a-f]{7,8}$")
        assert not [item.id for item in rehearsal.cloud.items if not automatic.search(item.id.split("@")[0])]


def repeat(rehearsal: Rehearsal, operation: Callable[[], object], at: Operation) -> None:
    """Lets what can fail fail, until all of it has, and deletes what a message says is in the way."""
    for (stack, name, when), found in faults().items():
        for kind in found if (stack, when) == (rehearsal.stack, at) else ():
            rehearsal.faults.add([name], kind=kind, at=at)
    while True:
        before = len(rehearsal.faults.struck)
        try:
            operation()
            break
        except RehearsalError as failed:
            told = str(failed)
        struck, met = rehearsal.faults.struck[before:], rehearsal.cloud.named_in(told)
        for name, said in struck:
            # A text of several lines goes on with a blank.
            assert re.search(rf"{name}: (.|\n\s)*{re.escape(said)}", told)
        for item in met:
            rehearsal.cloud.remove(item)
        assert struck or met, told
    assert not rehearsal.faults.waiting


def test_what_was_made_before_it_failed_is_not_made_twice_although_its_refusal_passes() -> None:
    """A bucket that is there and cannot be read back yet: the engine would make another one."""
    refusal = "googleapi: Error 403: it has not been used in project 1 before or it is disabled."
    with Rehearsal("dev") as rehearsal:
        rehearsal.faults.add(["cloudrun-vllm-bucket"], refusal, kind="partial")
        with pytest.raises(RehearsalError, match=re.escape(refusal)):
            rehearsal.up()
        (bucket,) = (item.id for item in rehearsal.cloud.items if item.name == "cloudrun-vllm-bucket")
        rehearsal.up()
        assert [item.id for item in rehearsal.cloud.items if item.name == "cloudrun-vllm-bucket"] == [bucket]
        rehearsal.destroy()
        assert not rehearsal.cloud.items


@pytest.mark.parametrize(
    ("stack", "name"), [("a4-ray", "a4-ray-cluster"), ("cloudrun-vllm", "cloudrun-vllm-execution")]
)
def test_destroy_cleans_up_after_a_failed_up(stack: str, name: str) -> None:
    """After a job that failed: test_runs.py."""
    with Rehearsal(stack) as rehearsal:
        rehearsal.faults.add([name])
        with pytest.raises(RehearsalError, match=name):
            rehearsal.up()
        assert not rehearsal.faults.waiting
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


def test_an_engine_that_dies_half_way_is_recovered_from_by_cancel_refresh_up_and_destroy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_SKIP_CHECKPOINTS", "false")
    made: list[str] = []
    said: list[str] = []

    def kill(item: Item) -> None:
        """The engine, while it waits for the cluster."""
        if item.type == CLUSTER and not made:
            made.append(item.id)
            engine = int(subprocess.check_output(["pgrep", "-P", str(os.getpid()), "pulumi"]))
            # Not while it writes: half a state is another story.
            until(lambda: "a whole state", lambda: stopped_with_a_state(engine), 60)
            os.kill(engine, signal.SIGKILL)

    def stopped_with_a_state(engine: int) -> bool:
        os.kill(engine, signal.SIGSTOP)
        until(lambda: "all of its threads to stop", lambda: states(engine) == {"T"}, 60)
        try:
            (file,) = rehearsal.backend.glob(".pulumi/stacks/*/*.json")
            # The file beside it is written first, and without its end no command opens the state.
            return all(json.loads(each.read_text()) for each in (file, Path(f"{file}.attrs")))
        except (OSError, ValueError):
            os.kill(engine, signal.SIGCONT)
            return False

    def states(engine: int) -> set[str]:
        """Of its threads: `T` is one that has stopped (proc_pid_stat(5))."""
        files = Path(f"/proc/{engine}/task").glob("*/stat")
        return {file.read_text().rpartition(")")[2].split()[0] for file in files}

    with Rehearsal("a4-ray", progress=said.append) as rehearsal:
        rehearsal.cloud.on_write = kill
        with pytest.raises(EngineError, match="pulumi up was killed by SIGKILL"):
            rehearsal.up()
        with pytest.raises(RehearsalError, match="currently locked by 1 lock"):
            rehearsal.up()
        rehearsal.engine(["cancel", "--yes"])
        rehearsal.engine(["refresh", "--yes"])
        rehearsal.up()
        assert any("::a4-ray-cluster, interrupted while creating" in line for line in said)
        rehearsal.engine(["refresh", "--yes", "--clear-pending-creates"])
        assert rehearsal.preview().changed == 0
        assert "pending_operations" not in rehearsal.state()["deployment"]
        # What the engine did not live to write down is in the way when the network goes.
        with pytest.raises(RehearsalError, match=f"is already being used by {made[0]}"):
            rehearsal.destroy()
        (orphan,) = (item for item in rehearsal.cloud.items if item.id == made[0])
        rehearsal.cloud.remove(orphan)
        rehearsal.destroy()
        assert not rehearsal.state()["deployment"].get("resources")
