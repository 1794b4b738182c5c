"""What KubeRay's own operator does with the Ray stacks' objects. Ray itself runs in tests/pods."""

import re
from collections.abc import Iterator

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, ApiError, Object, until
from rehearsal.session import Rehearsal
from tests import plans

TIMEOUT = 60.0


@pytest.fixture(scope="module", params=["a4-ray", "tpu-maxtext"])
def stack(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Rehearsal]:
    """The stack. After the last test it is destroyed, and nothing is left."""
    with Rehearsal(request.param, {"imageUri": plans.IMAGE}, plane=plane) as stack:
        stack.up()
        yield stack
        stack.remove()
        assert stack.cluster and stack.cluster.left() == []


def job_of(stack: Rehearsal) -> Object:
    """The stack's RayJob, as the program declares it."""
    (item,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayJob")
    return item.inputs


def pods(api: Api, role: str) -> list[Object]:
    """Pods of Ray clusters that run."""
    pods = api.list("v1", "Pod", labels={"ray.io/node-type": role})
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


def come_to(api: Api, workers: int) -> None:
    until(lambda: f"{workers} workers", lambda: len(pods(api, "worker")) == workers, TIMEOUT)


def passes_its_deadline(api: Api, job: Object) -> Object:
    """Lets a RayJob pass its deadline, and returns the status that the operator writes."""
    api.patch(job, {"spec": {"activeDeadlineSeconds": 1}})

    def status() -> Object:
        return (api.get(job) or {})["status"]

    until(
        lambda: f"the end of {status()}",
        lambda: status().get("jobDeploymentStatus") in ("Failed", "Retrying"),
        TIMEOUT,
    )
    return status()


# Before a test that has the fixture `stack`: it stays up until the last one, and has the same names.
def test_a_shared_cluster_gives_its_gpus_back_when_it_is_suspended_and_outlives_a_deadline(
    plane: ControlPlane, api: Api
) -> None:
    with Rehearsal("a4-ray", {"imageUri": plans.IMAGE, "rayCluster": "shared"}, plane=plane) as stack:
        stack.up()
        (cluster,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayCluster")
        for suspended, workers in ((True, 0), (False, 2)):
            api.patch(cluster.inputs, {"spec": {"suspend": suspended}})
            come_to(api, workers)
            assert stack.preview().changed == 0
            assert stack.refresh().changed == 0
        assert passes_its_deadline(api, job_of(stack))["jobDeploymentStatus"] == "Failed"
        assert len(pods(api, "worker")) == 2
        stack.remove()


def test_every_worker_has_a_machine_with_accelerators_and_the_head_has_none(
    stack: Rehearsal, api: Api
) -> None:
    accelerated = [
        node["metadata"]["name"]
        for node in api.list("v1", "Node")
        if {"nvidia.com/gpu": "8", "google.com/tpu": "4"}.items() & node["status"]["capacity"].items()
    ]
    placed = [pod["spec"]["nodeName"] for pod in pods(api, "worker")]
    assert sorted(placed) == sorted(accelerated)
    assert len(placed) == {"a4-ray": 2, "tpu-maxtext": 4}[stack.stack]
    (head,) = pods(api, "head")
    assert head["spec"]["nodeName"] not in accelerated


def test_a_name_that_is_none_is_rejected_with_the_operators_sentence(stack: Rehearsal) -> None:
    job = job_of(stack)
    assert stack.cluster
    misnamed = {**job, "metadata": {**job["metadata"], "name": "4b-vision"}}
    _, lacks = stack.cluster.write(misnamed, new=True, force=True)
    stack.cluster.delete(misnamed)
    assert re.search(r"4b-vision has ended: .* should be a valid DNS1035 label", lacks)


def test_a_training_past_its_deadline_is_not_tried_again_and_leaves_no_ray_cluster(
    stack: Rehearsal, api: Api
) -> None:
    job = job_of(stack)
    api.patch(job, {"spec": {"ttlSecondsAfterFinished": 0}})
    ended = passes_its_deadline(api, job)
    assert (ended["jobDeploymentStatus"], ended["reason"]) == ("Failed", "DeadlineExceeded")
    until(lambda: "no Ray cluster", lambda: not api.list("ray.io/v1", "RayCluster"), TIMEOUT)


def test_the_operator_has_the_rights_of_its_role_and_no_others(plane: ControlPlane) -> None:
    operator = Api(plane.ray_operator.kubeconfig)
    with pytest.raises(ApiError, match='cannot list resource "nodes"'):
        operator.list("v1", "Node")
