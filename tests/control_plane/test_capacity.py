"""A list of capacities: Kueue, Ray's operator and the capacity keeper, on machines that come and go."""

import json
import random
import re
from collections.abc import Iterator

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, Object, until
from rehearsal.session import Rehearsal
from rehearsal.stock import FLEX_START, RESERVATION, SPOT, capacity_of
from tests import plans
from tests.control_plane.machines import TIMEOUT, Scene
from tests.control_plane.test_status import look

LIST = json.dumps([RESERVATION, FLEX_START, SPOT])
# Twenty of the keeper's minutes are six seconds here, and a pod has its node within one.
TWO_NODES = {
    "imageUri": plans.IMAGE,
    "capacity.type": LIST,
    "capacity.minutes": "[20, 20, 20]",
    "capacity.zone": "us-central1-b",
}
# A Job waits longer for a new pod the more of its pods have ended, in seconds that are not shorter here.
only_ray = pytest.mark.parametrize("scene", ["a4-ray"], indirect=True)


@pytest.fixture(scope="module", params=["a4-accelerate", "a4-ray", "own"])
def scene(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Scene]:
    """The stack with two nodes. At first the reservation has one machine, and spot has two."""
    settings = {**TWO_NODES, **plans.known_settings(request.param, nodes="2", machine="a4-highgpu-8g")}
    with Rehearsal(request.param, settings, plane=plane) as stack:
        scene = Scene(stack, plane)
        scene.offer({RESERVATION: 1, SPOT: 2})
        stack.up()
        yield scene
        stack.remove()
        assert stack.cloud.items == []
        assert stack.cluster and stack.cluster.left() == []


def test_a_job_of_two_nodes_goes_to_the_capacity_that_has_both_and_stays_whole(scene: Scene) -> None:
    scene.comes_to(SPOT)
    # The machine that the reservation had is given back.
    until(lambda: "the empty node to go", lambda: not any(_reserved(scene.api)), TIMEOUT)
    assert scene.stack.preview().changed == 0


def _reserved(api: Api) -> Iterator[Object]:
    for node in api.list("v1", "Node"):
        if capacity_of(node["metadata"]["labels"]) == RESERVATION:
            yield node


def test_a_job_that_loses_a_node_moves_as_a_whole_and_later_back(scene: Scene) -> None:
    scene.offer({SPOT: 2})
    scene.comes_to(SPOT)
    scene.offer({RESERVATION: 2})
    scene.lose(SPOT)
    scene.comes_to(RESERVATION)
    scene.offer({SPOT: 2})
    scene.lose(RESERVATION)
    scene.comes_to(SPOT)


@only_ray
def test_status_says_what_was_tried_and_what_is_tried_now(scene: Scene) -> None:
    scene.offer({})
    scene.lose(SPOT, 2)
    scene.lose(RESERVATION, 2)

    def report_lines() -> str:
        report = look(scene.stack, scene.plane)
        assert report.unseen == ()
        lines = [line for line in report.lines if line.kind in ("queue", "capacity")]
        return "\n".join(f"{line.name} {line.state} {line.detail} {line.why}" for line in lines)

    tried = r"reservation \d\d:\d\d to \d\d:\d\d"
    expected = ["reservation has no machines", "spot since .*no nodes for all its pods: (.*, )?" + tried]
    until(report_lines, lambda: all(re.search(text, report_lines(), re.DOTALL) for text in expected), TIMEOUT)
    scene.offer({FLEX_START: 2})
    scene.comes_to(FLEX_START)


@only_ray
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 1 else []) for seed in range(100)]
)
def test_a_job_never_stands_on_two_capacities_while_machines_come_and_go(scene: Scene, seed: int) -> None:
    chance = random.Random(seed)
    machines = {capacity: chance.randrange(3) for capacity in (RESERVATION, FLEX_START, SPOT)}
    enough = chance.choice([*machines])
    scene.offer({**machines, enough: 2})
    scene.lose(scene.stands_on()[0], chance.choice([1, 2]))

    def stands() -> bool:
        places = scene.stands_on()
        assert len(set(places)) <= 1, f"pods stand on {places}"
        return len(places) == 2

    until(lambda: f"two nodes, after:\n{scene.plane.capacity_keeper.log()}", stands, TIMEOUT)
