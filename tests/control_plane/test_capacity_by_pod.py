"""Lists of capacities for pods that need no other, and for two node pools of a Standard cluster."""

import json

from rehearsal.control_plane import ControlPlane
from rehearsal.session import Rehearsal
from rehearsal.stock import FLEX_START, RESERVATION, SPOT
from tests import plans
from tests.control_plane.machines import Scene
from tests.control_plane.test_status import look


def test_a_pod_by_itself_goes_on_at_once_and_the_class_says_what_has_no_machines(plane: ControlPlane) -> None:
    settings = {"imageUri": plans.IMAGE, "capacity.type": json.dumps([RESERVATION, FLEX_START, SPOT])}
    with Rehearsal("a4-accelerate", settings, plane=plane) as stack:
        scene = Scene(stack, plane, size=1)
        scene.offer({SPOT: 1})
        stack.up()
        scene.comes_to(SPOT)
        report = look(stack, plane)
        (line,) = [line for line in report.lines if line.kind == "capacity"]
        assert line.state == "tries spot"
        none = "Google has no such machines now"
        assert line.why and line.why.text.startswith(f"reservation: {none}; flex-start: {none}")
        stack.remove()
        assert stack.cluster and stack.cluster.left() == []


def test_two_pools_of_l4_lend_the_fine_tune_their_nodes_one_after_the_other(plane: ControlPlane) -> None:
    settings = {
        "imageUri": plans.IMAGE,
        "capacity.type": json.dumps([FLEX_START, SPOT]),
        "capacity.minutes": "[20, 20]",
        "servingReplicas": "0",
    }
    with Rehearsal("l4-kueue", settings, plane=plane) as stack:
        scene = Scene(stack, plane)
        scene.offer({FLEX_START: 1, SPOT: 2})
        stack.up()
        scene.comes_to(SPOT)
        for lost, free in ((SPOT, FLEX_START), (FLEX_START, SPOT)):
            scene.offer({free: 2})
            scene.lose(lost)
            scene.comes_to(free)
        stack.remove()
        assert stack.cluster and stack.cluster.left() == []
