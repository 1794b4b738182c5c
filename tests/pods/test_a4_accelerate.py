"""The stack a4-accelerate with its trainer: one Job, two processes on one node or on two, a bucket."""

import signal
import subprocess

import pytest

from engine.project import ROOT
from rehearsal.stock import RESERVATION
from tests.pods.conftest import Play

COMPLETE = "Complete CompletionsReached"
LOADS = """
import sys
from peft import PeftConfig
print(PeftConfig.from_pretrained(sys.argv[1]).base_model_name_or_path)
"""


@pytest.fixture(scope="module")
def undisturbed(play: Play) -> dict[int, float]:
    """The losses of a run to which nothing happens."""
    stage = play("a4-accelerate")
    stage.stack.up()
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    assert (stage.run() / "COMPLETE.json").exists()
    loads = [ROOT / ".venv-training/bin/python", "-c", LOADS, stage.run() / "adapter"]
    assert subprocess.check_output(loads, text=True).strip() == "google/gemma-3-12b-it"
    return stage.losses()


def test_the_job_trains_every_step_and_leaves_an_adapter(undisturbed: dict[int, float]) -> None:
    assert list(undisturbed) == list(range(1, len(undisturbed) + 1))
    assert undisturbed[len(undisturbed)] < undisturbed[1]


def test_a_run_that_is_killed_and_then_loses_its_node_goes_on_as_if_nothing_had_happened(
    play: Play, undisturbed: dict[int, float]
) -> None:
    stage = play("a4-accelerate")
    stage.stack.up()
    stage.waits_for("a checkpoint", stage.saved)
    (pod,) = stage.pods()
    running = stage.kubelet.pod(pod["metadata"]["name"])
    assert running
    running.process("finetune").signal(signal.SIGKILL)
    (_, second) = stage.waits_for("a second pod", lambda: len(stage.pods()) == 2 and stage.pods())
    killed = stage.saved()
    stage.waits_for("another checkpoint", lambda: stage.saved() > killed)
    stage.kubelet.lose(stage.node_of(second))
    stopped = stage.saved()
    assert stopped not in range(0, 1000, 6), "the stop has saved nothing of its own"
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    assert stage.losses() == pytest.approx(undisturbed)


def test_two_nodes_have_the_losses_of_one_although_a_node_is_lost(
    play: Play, undisturbed: dict[int, float]
) -> None:
    stage = play("a4-accelerate", nodes="2")
    stage.stack.up()
    stage.waits_for("a checkpoint", stage.saved)
    pods = stage.pods()
    assert len({stage.node_of(pod) for pod in pods}) == 2
    stage.kubelet.lose(stage.node_of(pods[1]))
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    first, now = ({pod["metadata"]["uid"] for pod in some} for some in (pods, stage.pods()))
    assert now - first, "the run ended before the node was lost"
    assert stage.losses() == pytest.approx(undisturbed, abs=1e-5)


@pytest.mark.slow
def test_two_nodes_that_lose_one_move_to_the_next_capacity_together_and_have_the_losses_of_one(
    play: Play, undisturbed: dict[int, float]
) -> None:
    # Sixty of the capacity keeper's minutes are 18 seconds here.
    stage = play(
        "a4-accelerate",
        nodes="2",
        capacity_type='["reservation", "spot"]',
        capacity_minutes="[60, 60]",
        capacity_zone="us-central1-b",
    )
    stage.stack.up()
    stage.waits_for("a checkpoint", stage.saved)
    assert stage.stack.cluster
    stage.stack.cluster.nodes.stock.set(RESERVATION, 0)
    stage.kubelet.lose(stage.node_of(stage.pods()[1]))
    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    classes = [pod["spec"]["nodeSelector"]["cloud.google.com/compute-class"] for pod in stage.pods()]
    assert classes[-2:] == ["spot", "spot"]
    assert stage.losses() == pytest.approx(undisturbed, abs=1e-5)
