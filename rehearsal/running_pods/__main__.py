"""Runs a stack with its pods: `python -m rehearsal.running_pods STACK`, what `make rehearse-run` does."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, Final

from engine import go_build, lookup, project
from engine.errors import EngineError, writing
from engine.project import parse_override
from rehearsal import interruption
from rehearsal.command import add_set_option
from rehearsal.control_plane import ControlPlane, programs
from rehearsal.display import OperationLog, head, say
from rehearsal.lifecycle import RESULTS
from rehearsal.pods import image, network
from rehearsal.running_pods import serving
from rehearsal.running_pods.demonstration import lose_a_node, share
from rehearsal.running_pods.recording import Recording
from rehearsal.running_pods.report import TrainingLog, refused_connections, training_end
from rehearsal.running_pods.stage import CloudRunStage, Stage
from rehearsal.running_pods.surroundings import REAL_SERVER, Surroundings

_ON_CLOUD_RUN: Final = "cloudrun-vllm"
# The scenario that trains nothing.
_SERVING: Final = "serve"


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal.running_pods",
        description="Creates a stack without a cloud, runs its pods' commands on tiny models, destroys it.",
    )
    parser.add_argument("stack", help="name of the stack, such as l4-kueue")
    add_set_option(parser)
    parser.add_argument("--verbose", action="store_true", help="print every line of the engine")
    return parser


def main(stack: str, overrides: Sequence[str] = (), *, verbose: bool = False) -> int:
    """Creates the stack, runs its training and destroys it. Returns the exit status.

    Args:
        stack: Name of the stack.
        overrides: Configuration values in place of the stack file's, each as `key=value`.
        verbose: Whether to print every line of the engine.
    """
    if reason := network.missing():
        print(f"rehearse-run {stack}: {reason}", file=sys.stderr)
        return 2
    interruption.raise_on_signals()
    with tempfile.TemporaryDirectory(prefix="pods-") as folder:
        try:
            with writing():
                return _run(stack, dict(map(parse_override, overrides)), Path(folder), verbose=verbose)
        except EngineError as error:
            print(f"rehearse-run {stack}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"rehearse-run {stack}: interrupted; nothing is left behind", file=sys.stderr)
            return interruption.EXIT_STATUS


def _run(stack: str, overrides: Mapping[str, str], folder: Path, *, verbose: bool) -> int:
    """Builds missing programs, starts the stage and runs the stack on it. Returns the exit status."""
    scenario = project.stack_file(stack)[f"{project.project_name()}:scenario"]
    if scenario != _ON_CLOUD_RUN:
        go_build.build(programs.MODULES, say)
    lookup.find(say)
    network.enter(folder / "hosts")
    with ExitStack() as started:
        stage = _stage(stack, overrides, scenario, folder, started, verbose=verbose)
        if scenario == _SERVING:
            say("fine-tuning a tiny model to the run that is served, a quarter of a minute")
            serving.make_run(stage, folder / "hub")
        return _play(stage, scenario)


def _stage(
    stack: str,
    overrides: Mapping[str, str],
    scenario: str,
    folder: Path,
    started: ExitStack,
    *,
    verbose: bool,
) -> Stage:
    """The stage of a stack. A stack on Cloud Run needs no control plane."""
    output: dict[str, Any] = {"progress": say} if verbose else {"events": OperationLog(say)}
    head("models and control plane")
    is_real = not image.missing(REAL_SERVER)
    around = started.enter_context(Surroundings(folder / "hub", say, real_server=is_real))
    if scenario == _ON_CLOUD_RUN:
        return started.enter_context(CloudRunStage(stack, overrides, around, log=say, **output))
    say("starting a Kubernetes control plane, a quarter of a minute")
    plane = started.enter_context(ControlPlane(say, runs_pods=True))
    return started.enter_context(Stage(stack, overrides, plane, around, folder / "hosts", log=say, **output))


def _play(stage: Stage, scenario: str) -> int:
    """Creates the stack, waits for its result and destroys it. Returns 1 if it failed or left something."""
    has_worked = _serve(stage) if scenario == _SERVING else _train(stage, scenario)
    head("second preview")
    changed = stage.stack.preview().changed
    say(f"{changed} would change")
    head("destroy")
    stage.stack.remove()
    left = [item.id for item in stage.stack.cloud.items]
    left += stage.stack.cluster.left() if stage.stack.cluster else []
    say(f"{changed} changed on the second preview, {len(left)} left after destroy {left or ''}".rstrip())
    return 0 if has_worked and not changed and not left else 1


def _serve(stage: Stage) -> bool:
    """Creates a stack that serves, and asks its server. Returns whether it answered."""
    head("up")
    stage.stack.up()
    head("serving")
    for line in serving.answer(stage, is_real=not image.missing(REAL_SERVER)):
        say(line)
    for line in refused_connections(stage):
        say(line)
    return True


def _train(stage: Stage, scenario: str) -> bool:
    """Creates a stack that trains, and waits for the end. Returns whether the training is complete."""
    recording, shares = Recording(stage), scenario == "l4-kueue"
    with recording if shares else nullcontext(), TrainingLog(stage, say):
        head("up")
        stage.stack.up()
        head("training")
        for line in _incidents(stage, scenario):
            say(line)
            recording.note(line)
        for line in training_end(stage):
            say(line)
    for line in refused_connections(stage):
        say(line)
    trained = stage.outcome().startswith("Complete")
    if shares:
        (folder := RESULTS / stage.stack.stack).mkdir(parents=True, exist_ok=True)
        recording.draw(folder / "pods.svg")
        say(f"pods, queue and loss over time: {folder}/pods.svg")
    return trained


def _incidents(stage: Stage, scenario: str) -> Iterator[str]:
    """What happens to the training while it runs, a sentence for every step."""
    if scenario == "l4-kueue":
        yield from share(stage)
    elif stage.training.get("spec", {}).get("parallelism", 1) > 1:
        yield from lose_a_node(stage)


if __name__ == "__main__":
    options = make_parser().parse_args()
    sys.exit(main(options.stack, options.overrides, verbose=options.verbose))
