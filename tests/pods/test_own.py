"""The stack own with its example: plain torch on two nodes, killed in the middle."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from engine.project import ROOT
from rehearsal.running_pods.stage import Stage
from tests.pods.conftest import Play
from tests.stacks.own_commands import documented_command

COMPLETE = "Complete CompletionsReached"
# Enough for a pod to be killed on the way.
STEPS = 600


def in_the_middle(stage: Stage) -> bool:
    """Whether some steps are saved, and not all."""
    return 0 < len(stage.losses()) < STEPS


@pytest.fixture(scope="module")
def undisturbed(play: Play) -> dict[int, float]:
    """The losses of a run on one node to which nothing happens."""
    stage = play("own", variables=f'{{"STEPS": "{STEPS}"}}')
    stage.stack.up()
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    return stage.losses()


def test_two_nodes_that_are_killed_and_lost_have_the_losses_of_one(
    play: Play, undisturbed: dict[int, float]
) -> None:
    stage = play("own", nodes="2", variables=f'{{"STEPS": "{STEPS}"}}')
    stage.stack.up()
    stage.waits_for("a checkpoint", lambda: in_the_middle(stage))
    first = stage.pods()
    running = stage.kubelet.pod(first[0]["metadata"]["name"])
    assert running
    running.process("program").signal(signal.SIGKILL)
    stage.waits_for("other pods", lambda: len(stage.pods()) > len(first))
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    assert list(undisturbed) == list(range(1, STEPS + 1))
    assert stage.losses() == pytest.approx(undisturbed, rel=1e-3)


@pytest.mark.slow
def test_torchrun_of_a_shell_script_finds_both_nodes_without_the_launcher_and_as_root(play: Play) -> None:
    stage = play(
        "own",
        nodes="2",
        launcher="none",
        command='["sh", "-c", "exec torchrun train.py"]',
        asRoot="true",
        variables='{"STEPS": "20"}',
    )
    stage.stack.up()
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    logs = [stage.kubelet.log(pod) for pod in stage.pods()]
    assert sorted(rank for rank in (0, 1) for log in logs if f"rank {rank} of 2 goes on" in log) == [0, 1]
    assert len(stage.losses()) == 20


# What stands in for a framework that the image does not have.
FRAMEWORKS = {
    "LLaMA-Factory": ["python", "llamafactory_cli.py"],
    "axolotl": ["python", "axolotl.py"],
    "accelerate": ["accelerate"],
}


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_frameworks_documented_command_trains_on_both_nodes_together(
    play: Play, framework: str, tmp_path: Path
) -> None:
    shutil.copytree(Path(__file__).parent / "frameworks", tmp_path / "code")
    shutil.copy(ROOT / "workloads/own/example/train.py", tmp_path / "code")
    _, *words = documented_command(framework)
    stage = play(
        "own",
        nodes="2",
        launcher="none",
        code=str(tmp_path / "code"),
        command=json.dumps([*FRAMEWORKS[framework], *words]),
        variables='{"STEPS": "20", "FORCE_TORCHRUN": "1"}',
    )
    stage.stack.up()
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    logs = [stage.kubelet.log(pod) for pod in stage.pods()]
    assert sorted(rank for rank in (0, 1) for log in logs if f"rank {rank} of 2 goes on" in log) == [0, 1]
    assert len(stage.losses()) == 20
