"""Runs a stack with its pods: `python -m rehearsal.run STACK`, what `make rehearse-run` does."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import FrameType
from typing import Final

from engine import go_build, lookup, project
from engine.errors import EngineError
from rehearsal.control_plane import ControlPlane, programs
from rehearsal.lifecycle import RESULTS
from rehearsal.pods import network
from rehearsal.run.demonstration import share
from rehearsal.run.recording import Recording
from rehearsal.run.stage import CloudRunStage, Stage
from rehearsal.run.surroundings import Surroundings

_ON_CLOUD_RUN: Final = "cloudrun-vllm"


def main(stack: str) -> int:
    """Creates the stack, plays its course, destroys it; returns the exit status."""
    if reason := network.missing():
        print(f"rehearse-run {stack}: {reason}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="pods-") as folder:
        try:
            scenario = project.stack_file(stack)[f"{project.project_name()}:scenario"]
            if scenario != _ON_CLOUD_RUN:
                go_build.build(programs.MODULES, print)
            lookup.find(print)
            network.enter(Path(folder, "hosts"))
            with ExitStack() as started:
                stage = _stage(stack, scenario, Path(folder), started)
                return _play(stage, shares=scenario == "l4-kueue")
        except EngineError as error:
            print(f"rehearse-run {stack}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"rehearse-run {stack}: interrupted; nothing is left behind", file=sys.stderr)
            return 130


def _stage(stack: str, scenario: str, folder: Path, started: ExitStack) -> Stage:
    """The stage of a stack; one on Cloud Run has no control plane."""
    around = started.enter_context(Surroundings(folder / "hub"))
    if scenario == _ON_CLOUD_RUN:
        return started.enter_context(CloudRunStage(stack, {}, around, progress=print))
    plane = started.enter_context(ControlPlane(runs_pods=True))
    return started.enter_context(Stage(stack, {}, plane, around, folder / "hosts", progress=print))


def _play(stage: Stage, *, shares: bool) -> int:
    """Brings the stack up, trains, destroys it; 1 when the training failed or something is left."""
    recording = Recording(stage)
    with recording if shares else nullcontext():
        stage.stack.up()
        for said in share(stage) if shares else ():
            print(said, flush=True)
            recording.note(said)
        for said in train(stage):
            print(said, flush=True)
        for said in policies(stage):
            print(said, flush=True)
    trained = stage.outcome().startswith("Complete")
    if shares:
        (folder := RESULTS / stage.stack.stack).mkdir(parents=True, exist_ok=True)
        recording.draw(folder / "pods.svg")
        print(f"pods, queue and loss over time: {folder}/pods.svg")
    changed = stage.stack.preview().changed
    stage.stack.destroy()
    left = [item.id for item in stage.stack.cloud.items]
    left += stage.stack.cluster.left() if stage.stack.cluster else []
    print(f"{changed} changed on the second preview, {len(left)} left after destroy {left or ''}")
    return 0 if trained and not changed and not left else 1


def train(stage: Stage) -> Iterator[str]:
    """The training, from what its pods and its bucket say of it."""
    yield f"the training: {stage.waits_for('the end of the training', stage.outcome)}"
    if not (losses := stage.losses()):
        return
    yield f"{len(losses)} steps, loss {losses[min(losses)]:.3f} to {losses[max(losses)]:.3f}"
    run = stage.run()
    for file in sorted(path for path in run.rglob("*") if path.is_file() and "checkpoint-" not in str(path)):
        yield f"in the bucket: {file.relative_to(run.parent)}, {file.stat().st_size} bytes"


def policies(stage: Stage) -> Iterator[str]:
    """Whether network policies were enforced, and what they have refused."""
    if not stage.stack.cluster:
        return
    if reason := stage.kubelet.firewall.missing:
        yield reason
        return
    refused = stage.kubelet.refused()
    yield f"network policies were enforced; packets refused: {refused.total()}"
    for connection, packets in refused.most_common():
        yield f"refused: {connection}, {packets} packets"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
