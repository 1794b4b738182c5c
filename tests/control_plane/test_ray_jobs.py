"""What becomes of a training on Ray, as KubeRay's own operator has it, in both Ray stacks."""

from collections.abc import Iterator

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, ApiError
from rehearsal.errors import RehearsalError
from rehearsal.ray_courses import Training, play, trainings
from rehearsal.session import Rehearsal
from tests import plans


@pytest.fixture(scope="module", params=["a4-ray", "tpu-maxtext"])
def stack(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Rehearsal]:
    """The stack, up; gone without a trace after the last test, whatever has become of its training."""
    with Rehearsal(request.param, {"imageUri": plans.IMAGE}, plane=plane) as stack:
        stack.up()
        yield stack
        stack.destroy()
        assert stack.cluster and stack.cluster.left() == []


@pytest.fixture
def training(stack: Rehearsal) -> Training:
    """The stack's training, which runs."""
    (training,) = trainings(stack)
    training.run()
    return training


def test_every_worker_has_a_machine_with_accelerators_and_the_head_has_none(
    training: Training, stack: Rehearsal, api: Api
) -> None:
    nodes = {node["metadata"]["name"]: node for node in api.list("v1", "Node")}
    accelerated = [
        name
        for name, node in nodes.items()
        if {"nvidia.com/gpu": "8", "google.com/tpu": "4"}.items() & node["status"]["capacity"].items()
    ]
    placed = [pod["spec"]["nodeName"] for pod in training.pods("worker").values()]
    assert sorted(placed) == sorted(accelerated)
    assert len(placed) == {"a4-ray": 2, "tpu-maxtext": 4}[stack.stack]
    (head,) = training.pods("head").values()
    assert head["spec"]["nodeName"] not in accelerated


def test_a_training_comes_out_of_every_course_as_it_should_and_then_runs_as_the_program_declares_it(
    training: Training, stack: Rehearsal
) -> None:
    assert [outcome.partition(":")[0] for outcome in play(training)] == [
        "a lost worker",
        "a success",
        "a lost head",
        "a failed training",
        "a stop",
        "a deadline",
    ]
    assert training.now()["jobDeploymentStatus"] == "Running"
    assert stack.preview().changed == 0
    assert stack.refresh().changed == 0


def test_a_training_that_is_deleted_is_told_to_stop(training: Training) -> None:
    job = training.now()["jobId"]
    training.cluster.delete(training.tree)
    assert job in training.cluster.plane.ray.stopped
    assert training.now() == {"clusters": [], "submitters": []}


def test_a_name_that_is_none_is_rejected_with_the_operators_sentence(training: Training) -> None:
    metadata = {**training.tree["metadata"], "name": "4b-vision"}
    with pytest.raises(RehearsalError, match=r"4b-vision has ended: .* should be a valid DNS1035 label"):
        training.cluster.write({**training.tree, "metadata": metadata}, new=True, force=True)


def test_the_operator_has_the_rights_of_its_role_and_no_others(plane: ControlPlane) -> None:
    operator = Api(plane.ray_operator.kubeconfig)
    with pytest.raises(ApiError, match='cannot list resource "nodes"'):
        operator.list("v1", "Node")
