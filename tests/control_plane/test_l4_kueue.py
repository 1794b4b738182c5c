"""The stack's own demonstration: serving takes the fine-tune's GPUs and gives them back."""

import copy
from collections.abc import Iterator

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Object, condition, is_true, until
from rehearsal.control_plane.kwok import LINGER
from rehearsal.session import Rehearsal
from tests.control_plane.demonstration import (
    ONE_SERVER,
    SERVING,
    SERVING_ALONE,
    SETTINGS,
    TIMEOUT,
    TWO_SERVERS,
    Demonstration,
)


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Iterator[Demonstration]:
    """The stack. After the last test it is destroyed, and nothing is left."""
    with Rehearsal("l4-kueue", SETTINGS, plane=plane) as stack:
        stack.up()
        yield Demonstration(stack=stack, api=plane.api)
        stack.remove()
        assert stack.cloud.items == []
        assert stack.cluster and stack.cluster.left() == []


@pytest.fixture
def another(scene: Demonstration) -> Iterator[Object]:
    """A Job like the stack's with one pod, which finds room while the stack's waits."""
    job = copy.deepcopy(scene.job)
    job["metadata"]["name"] = "another"
    job["spec"] |= {"parallelism": 1, "completions": 1}
    scene.ask_for(TWO_SERVERS)
    yield job
    scene.api.delete(job)
    until(lambda: "the Job to go", lambda: scene.api.get(job) is None, TIMEOUT)


def test_serving_takes_the_fine_tunes_gpus_and_gives_them_back(scene: Demonstration) -> None:
    scene.ask_for(SERVING_ALONE)
    scene.comes_to(scene.servers, (3, 1))
    first: set[str] = set()
    for replicas, servers, training in (
        (ONE_SERVER, (1, 0), (False, 2, 2)),
        (TWO_SERVERS, (2, 0), (True, 0, 0)),
        (ONE_SERVER, (1, 0), (False, 2, 2)),
    ):
        scene.ask_for(replicas)
        scene.comes_to(scene.servers, servers)
        scene.comes_to(scene.training, training)
        assert scene.stack.preview().changed == 0
        workload = scene.workload(scene.job)
        if replicas == TWO_SERVERS:
            assert condition(workload, "Evicted").get("reason") == "Preempted"
        assert is_true(workload, "QuotaReserved") == is_true(workload, "Admitted") == (replicas == ONE_SERVER)
        # Every time other pods, which go on where a checkpoint says.
        pods = {pod["metadata"]["uid"] for pod in scene.pods_of(scene.job)}
        assert not first & pods
        first |= pods


def test_a_server_gets_its_gpus_only_when_the_trainer_has_gone(scene: Demonstration) -> None:
    scene.ask_for(ONE_SERVER)
    scene.comes_to(scene.training, (False, 2, 2))
    scene.annotate(scene.job, **{LINGER: "4s"})
    scene.api.patch(SERVING, {"spec": {"replicas": 2}})
    # The trainer still writes its checkpoint. Its pods are terminating and keep their GPUs.
    scene.comes_to(lambda: scene.training()[0], True)
    assert scene.servers()[0] == 1
    assert scene.training()[2] == 2
    scene.comes_to(scene.servers, (2, 0))
    scene.comes_to(scene.training, (True, 0, 0))


@pytest.mark.parametrize("wanted", ["Complete", "Failed"])
def test_a_job_ends_as_its_pods_do(scene: Demonstration, another: Object, wanted: str) -> None:
    another["spec"]["backoffLimit"] = 0
    scene.api.apply(another)
    scene.comes_to(lambda: [is_true(pod, "Ready") for pod in scene.pods_of(another)], [True])
    scene.end(another, succeeded=wanted == "Complete")
    until(lambda: wanted, lambda: is_true(scene.api.get(another), wanted), TIMEOUT)
    until(lambda: "the end", lambda: is_true(scene.workload(another), "Finished"), TIMEOUT)


def test_a_job_larger_than_the_queue_waits_and_says_why(scene: Demonstration, another: Object) -> None:
    another["spec"] |= {"parallelism": 4, "completions": 4, "template": scene.job["spec"]["template"]}
    scene.api.apply(another)
    until(
        lambda: "a word about the quota",
        lambda: "maximum capacity" in condition(scene.workload(another), "QuotaReserved").get("message", ""),
        TIMEOUT,
    )
    assert scene.pods_of(another) == []
