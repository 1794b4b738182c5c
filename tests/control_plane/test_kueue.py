"""Serving pre-empts training: Kueue's manager with its webhooks, on simulated nodes."""

from collections.abc import Iterator

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, ApiError, Object, condition, is_true, until
from rehearsal.control_plane.kwok import FINISH
from tests.control_plane import generic
from tests.control_plane.demonstration import TIMEOUT, Demonstration

DEMONSTRATION = {"namespace": generic.NAMESPACE, "deployment": "server", "job": "training"}


@pytest.fixture(scope="module")
def nodes(kueue: ControlPlane) -> Iterator[ControlPlane]:
    """Kueue, and nodes with GPUs."""
    made = [generic.GPU_NODES.node(index) for index in range(generic.GPU_NODES.least)]
    for node in made:
        kueue.api.create(node)
    kueue.await_nodes([node["metadata"]["name"] for node in made])
    yield kueue
    for node in made:
        kueue.api.delete(node, "Background")


@pytest.fixture
def scene(nodes: ControlPlane) -> Iterator[Demonstration]:
    """A queue and one server."""
    api = nodes.api
    made = [generic.namespace(), *generic.priorities(), *generic.queue(), generic.serving()]
    for tree in made:
        api.apply(tree)
    yield Demonstration(api=api, **DEMONSTRATION)
    for tree in (generic.training(), *reversed(made)):
        remove(api, tree)


def remove(api: Api, tree: Object) -> None:
    """Deletes an object and waits until Kueue, where it holds it, has let it go."""
    api.delete(tree)
    until(lambda: f"{tree} to go", lambda: api.get(tree) is None, TIMEOUT)


def test_serving_preempts_training_which_comes_back_when_there_is_room(scene: Demonstration) -> None:
    scene.run(lambda: scene.api.apply(generic.training()))


def test_a_server_gets_its_gpus_only_when_the_trainer_has_gone(scene: Demonstration) -> None:
    scene.comes_to(scene.servers, (1, 0))
    scene.api.apply(generic.training(linger="4s"))
    scene.comes_to(scene.training, (False, 2, 2))
    scene.scale(2)
    # The trainer still writes its checkpoint; its pods count as going, and the GPUs are theirs.
    scene.comes_to(lambda: scene.training()[0], True)
    assert scene.servers()[0] == 1
    assert scene.training()[2] == 2
    scene.comes_to(scene.servers, (2, 0))
    assert scene.training() == (True, 0, 0)


@pytest.mark.parametrize(("outcome", "wanted"), [("succeeded", "Complete"), ("failed", "Failed")])
def test_a_job_ends_as_its_pods_do(scene: Demonstration, outcome: str, wanted: str) -> None:
    scene.api.apply(generic.training())
    scene.comes_to(scene.training, (False, 2, 2))
    for pod in scene.pods({"batch.kubernetes.io/job-name": "training"}):
        scene.api.patch(pod, {"metadata": {"annotations": {FINISH: outcome}}})
    job = generic.training()
    until(lambda: wanted, lambda: is_true(scene.api.get(job), wanted), TIMEOUT)
    until(lambda: "the end", lambda: is_true(scene.workload(), "Finished"), TIMEOUT)


def test_a_job_larger_than_the_queue_waits_and_says_why(scene: Demonstration) -> None:
    job = generic.training()
    job["spec"] |= {"parallelism": 4, "completions": 4}
    scene.api.apply(job)
    until(
        lambda: "a word about the quota",
        lambda: "maximum capacity" in condition(scene.workload(), "QuotaReserved").get("message", ""),
        TIMEOUT,
    )
    assert scene.training() == (True, 0, 0)


def test_a_wrong_queue_is_refused_by_the_real_schemas_and_webhooks(kueue: ControlPlane) -> None:
    api: Api = kueue.api
    flavor, queue, _ = generic.queue()
    api.apply(flavor)
    misspelt = {**queue, "spec": {**queue["spec"], "cohort": "all"}}
    with pytest.raises(ApiError, match="cohort: field not declared in schema"):
        api.apply(misspelt)
    unknown = {**queue, "spec": {**queue["spec"], "preemption": {"withinClusterQueue": "Lower"}}}
    with pytest.raises(ApiError, match='Unsupported value: "Lower"'):
        api.apply(unknown)
    remove(api, flavor)
