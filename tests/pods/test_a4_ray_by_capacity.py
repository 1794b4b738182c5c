"""The stack a4-ray with a list of capacities: its pods run, and move from one to the next together."""

import pytest

from rehearsal.stock import RESERVATION, SPOT
from tests.pods.conftest import Play

pytestmark = pytest.mark.slow

CLASS = "cloud.google.com/compute-class"


def test_a_ray_cluster_that_loses_a_node_moves_to_the_next_capacity_as_a_whole_and_goes_on(
    play: Play,
) -> None:
    # A hundred of the capacity keeper's minutes are 30 seconds here.
    stage = play(
        "a4-ray",
        capacity_type=f'["{RESERVATION}", "{SPOT}"]',
        capacity_minutes="[100, 100]",
        capacity_zone="us-central1-b",
        # Ray trains on for the 25 seconds of a node that shuts down, three steps a second.
        recipeSet='{"training.save_every_steps": 6, "training.epochs": 30}',
    )
    stage.stack.up()
    stage.waits_for("a checkpoint", stage.saved)

    def workers() -> list[str]:
        labels = {"ray.io/node-type": "worker"}
        pods = stage.api.list("v1", "Pod", labels=labels)
        return [
            pod["spec"]["nodeSelector"][CLASS] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        ]

    assert workers() == ["reservation"] * 2
    assert stage.stack.cluster
    stage.stack.cluster.nodes.stock.set(RESERVATION, 0)
    (worker, _) = stage.api.list("v1", "Pod", labels={"ray.io/node-type": "worker"})
    saved = stage.saved()
    stage.kubelet.lose(stage.node_of(worker))
    stage.waits_for("both workers on the next capacity", lambda: workers() == ["spot"] * 2)
    assert stage.waits_for("the end of the training", stage.outcome).startswith("Complete")
    steps = list(stage.losses())
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > saved
