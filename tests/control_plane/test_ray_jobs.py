"""What becomes of a training on Ray, as KubeRay's own operator has it, in both Ray stacks."""

from collections.abc import Iterator

import pytest

from rehearsal import Rehearsal, RehearsalError
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, ApiError, Object
from rehearsal.control_plane.ray_dashboards import RUNNING
from rehearsal.fake_kubernetes import RAY_ENDS
from tests import plans
from tests.control_plane.training import Training


@pytest.fixture(scope="module", params=["a4-ray", "tpu-maxtext"])
def stack(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Rehearsal]:
    """The stack, up; gone without a trace after the last test, whatever has become of its training."""
    with Rehearsal(request.param, {"imageUri": plans.IMAGE}, plane=plane) as stack:
        stack.up()
        yield stack
        stack.destroy()
        assert stack.cluster and stack.cluster.left() == []


@pytest.fixture
def training(stack: Rehearsal, plane: ControlPlane) -> Training:
    """The stack's training; a new one where a test before has ended it."""
    (item,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayJob")
    tree = {key: value for key, value in item.inputs.items() if key != "status"}
    training = Training(plane=plane, stack=stack, tree=tree)
    if training.status().get("jobStatus") != RUNNING or training.status()["jobDeploymentStatus"] != "Running":
        assert stack.cluster
        stack.cluster.delete(tree)
        plane.ray.end(training.name, RUNNING)
        stack.cluster.write(tree, new=True, force=True)
    return training


def test_every_worker_has_a_machine_with_accelerators_and_the_head_has_none(training: Training) -> None:
    nodes = {node["metadata"]["name"]: node for node in training.api.list("v1", "Node")}
    accelerated = [
        name
        for name, node in nodes.items()
        if {"nvidia.com/gpu": "8", "google.com/tpu": "4"}.items() & node["status"]["capacity"].items()
    ]
    placed = [pod["spec"]["nodeName"] for pod in training.pods("worker").values()]
    assert sorted(placed) == sorted(accelerated)
    assert len(placed) == {"a4-ray": 2, "tpu-maxtext": 4}[training.stack.stack]
    (head,) = training.pods("head").values()
    assert head["spec"]["nodeName"] not in accelerated


def test_a_lost_worker_comes_back_and_the_training_goes_on_to_its_end(training: Training) -> None:
    before, workers = training.status(), training.pods("worker")
    lost = next(iter(workers))
    training.api.delete(workers[lost])
    # Of a slice all are replaced, which the training could not go on without.
    kept = set() if training.stack.stack == "tpu-maxtext" else set(workers) - {lost}
    training.comes_to((len(workers), kept), lambda: came(training.pods("worker"), workers))
    after = ended(training, "Complete")
    assert (after["jobId"], after["rayClusterName"]) == (before["jobId"], before["rayClusterName"])


def came(now: dict[str, Object], before: dict[str, Object]) -> tuple[int, set[str]]:
    """How many there are now, and which of them were there before."""
    return len(now), set(now) & set(before)


def test_a_lost_head_comes_back_in_the_same_cluster_and_the_job_is_submitted_to_it_again(
    training: Training,
) -> None:
    before, heads, tries = training.status(), training.pods("head"), training.submitters()
    training.api.delete(next(iter(heads.values())))
    training.comes_to((1, set()), lambda: came(training.pods("head"), heads))
    training.comes_to(sorted([*tries, "Failed"]), training.submitters)
    after = training.ends("Running")
    assert (after["jobId"], after["rayClusterName"]) == (before["jobId"], before["rayClusterName"])


def test_a_training_that_stops_itself_as_one_does_whose_input_is_wrong_gets_no_second_cluster(
    training: Training,
) -> None:
    ended(training, "Stopped")


def ended(training: Training, outcome: str) -> Object:
    """How it has ended, at its first try; its machines go back, and its log stays."""
    wanted = RAY_ENDS[outcome]
    training.plane.ray.end(training.name, wanted["jobStatus"])
    status = training.ends(wanted["jobDeploymentStatus"])
    assert status.items() >= wanted.items()
    assert status["failed"] == 0
    assert training.clusters() == [status["rayClusterName"]]
    training.change(ttlSecondsAfterFinished=0)
    training.comes_to([], training.clusters)
    assert "Succeeded" in training.submitters()
    assert training.status()["jobDeploymentStatus"] == wanted["jobDeploymentStatus"]
    return status


def test_a_deadline_ends_a_training_once_and_for_all(training: Training) -> None:
    training.change(activeDeadlineSeconds=1)
    status = training.ends("Failed")
    assert (status["reason"], status["failed"]) == ("DeadlineExceeded", 1)
    training.change(ttlSecondsAfterFinished=0)
    training.comes_to([], training.clusters)


def test_a_training_that_is_deleted_is_told_to_stop(training: Training) -> None:
    job = training.status()["jobId"]
    assert training.stack.cluster
    training.stack.cluster.delete(training.tree)
    assert job in training.plane.ray.stopped
    assert (training.clusters(), training.submitters()) == ([], [])


def test_a_name_that_is_none_is_rejected_with_the_operators_sentence(training: Training) -> None:
    metadata = {**training.tree["metadata"], "name": "4b-vision"}
    assert training.stack.cluster
    with pytest.raises(RehearsalError, match=r"4b-vision has ended: .* should be a valid DNS1035 label"):
        training.stack.cluster.write({**training.tree, "metadata": metadata}, new=True, force=True)


def test_the_operator_has_the_rights_of_its_role_and_no_others(plane: ControlPlane) -> None:
    operator = Api(plane.ray_operator.kubeconfig)
    with pytest.raises(ApiError, match='cannot list resource "nodes"'):
        operator.list("v1", "Node")
