"""l4-kueue with an autoscaler: the load chooses the servers, and the fine-tune gives way and comes back.

Kubernetes' controller of HorizontalPodAutoscalers and Kueue are the real ones, and the pods are simulated. A
minute of the manifest's windows passes in a second.
"""

import copy
import itertools
import random
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Object, condition, until
from rehearsal.control_plane.metrics_of_pods import MetricsOfPods
from rehearsal.session import Rehearsal
from tests import plans
from tests.control_plane.demonstration import SERVING, TIMEOUT, Demonstration
from tests.hasten import FASTER, hasten

WAITING, KV_CACHE = "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
AUTOSCALER: Object = {**SERVING, "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
MOST = 3
# Requests that may wait for a server, by the manifest.
FOR_A_SERVER = 4


class Load:
    """What all servers together have to do.

    Attributes:
        waiting: The number of requests that wait at this moment.
        memory: How many servers' memory for keys and values is in use.
    """

    def __init__(self) -> None:
        self.waiting: Callable[[], float] = lambda: 0
        self.memory = 0.2
        self.servers = lambda: 1

    def read(self, pod: Object, endpoint: Object, metric: str) -> float:
        """What a server measures, as vLLM names it."""
        all_together = {WAITING: self.waiting(), KV_CACHE: self.memory}[metric]
        return all_together / max(self.servers(), 1)


@pytest.fixture(scope="module")
def load() -> Load:
    return Load()


@pytest.fixture(scope="module")
def scene(plane: ControlPlane, load: Load) -> Iterator[Demonstration]:
    """The stack, whose autoscaler waits for seconds and not for minutes."""
    settings = {"imageUri": plans.IMAGE, "servingReplicas": f'{{"min": 1, "max": {MOST}}}'}
    with (
        MetricsOfPods(plane.api, plane.keys, load.read),
        Rehearsal("l4-kueue", settings, plane=plane) as stack,
    ):
        stack.up()
        assert stack.preview().changed == 0
        scene = Demonstration(stack=stack, api=plane.api)
        hasten(scene.api, AUTOSCALER)
        load.servers = lambda: scene.servers()[0]
        yield scene
        stack.remove()
        assert stack.cluster and stack.cluster.left() == []


@pytest.fixture(autouse=True)
def little_to_do(scene: Demonstration, load: Load) -> None:
    """Every test begins with one server and a fine-tune that trains."""
    load.waiting, load.memory = (lambda: 0), 0.2
    scene.comes_to(scene.servers, (1, 0))
    scene.comes_to(scene.training, (False, 2, 2))


def wanted(scene: Demonstration) -> int:
    """The number of servers that the autoscaler has chosen."""
    return (scene.api.get(SERVING) or {})["spec"]["replicas"]


def test_load_brings_a_server_for_which_the_fine_tune_gives_way_and_comes_back(
    scene: Demonstration, load: Load
) -> None:
    load.waiting = lambda: 2 * FOR_A_SERVER
    scene.comes_to(scene.servers, (2, 0))
    scene.comes_to(scene.training, (True, 0, 0))
    assert condition(scene.workload(scene.job), "Evicted").get("reason") == "Preempted"
    load.waiting = lambda: 0
    scene.comes_to(scene.servers, (1, 0))
    scene.comes_to(scene.training, (False, 2, 2))


def test_no_load_makes_more_servers_than_the_queue_has_gpus_for(scene: Demonstration, load: Load) -> None:
    load.waiting = lambda: 1000
    scene.comes_to(scene.servers, (MOST, 0))
    until(
        lambda: f"the limit: {scene.api.get(AUTOSCALER)}",
        lambda: condition(scene.api.get(AUTOSCALER), "ScalingLimited").get("reason") == "TooManyReplicas",
        TIMEOUT,
    )
    assert wanted(scene) == MOST


def test_busy_servers_stay_although_nobody_waits(scene: Demonstration, load: Load) -> None:
    load.waiting = lambda: 2 * FOR_A_SERVER
    scene.comes_to(scene.servers, (2, 0))
    load.memory = 1.4
    load.waiting = lambda: 0
    scene.comes_to(lambda: measured(scene), ["0", "700m"])
    # With a wish for fewer servers it would be ScaleDownStabilized.
    assert condition(scene.api.get(AUTOSCALER), "AbleToScale").get("reason") == "ReadyForNewScale"


def measured(scene: Demonstration) -> list[str]:
    """The means that the autoscaler has seen."""
    status = (scene.api.get(AUTOSCALER) or {})["status"]
    return [metric["pods"]["current"]["averageValue"] for metric in status["currentMetrics"]]


def test_a_server_that_waits_for_gpus_keeps_no_other_one(scene: Demonstration, load: Load) -> None:
    other = copy.deepcopy(scene.job)
    other["metadata"]["name"] = "other"
    other["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    other["spec"] |= {"parallelism": 1, "completions": 1}
    scene.api.apply(other)
    try:
        load.waiting = lambda: 1000
        scene.comes_to(scene.servers, (MOST - 1, 1))
        load.waiting = lambda: 0
        scene.comes_to(scene.servers, (1, 0))
    finally:
        scene.api.delete(other)


def test_a_jagged_load_of_twenty_minutes_changes_the_servers_at_most_once_in_five(
    scene: Demonstration, load: Load
) -> None:
    chance = random.Random(7)
    # By the quarter of a minute: peaks out of quiet, then load with gaps, then quiet with peaks.
    quiet, busy = (chance.choices((0, 40), (9, 1), k=28), chance.choices((0, 40), (1, 15), k=32))
    course = [*quiet[:12], *busy, *quiet[12:]] + [0] * 20
    start = time.monotonic()

    def minutes() -> float:
        return (time.monotonic() - start) / 60 * FASTER

    load.waiting = lambda: course[min(int(minutes() * 4), len(course) - 1)]
    # The controller's own times, in whole seconds, which are a minute each.
    changes = {last_change(scene)}
    while minutes() < len(course) / 4:
        changes.add(last_change(scene))
        time.sleep(0.1)
    pauses = [later - earlier for earlier, later in itertools.pairwise(sorted(changes))]
    assert len(pauses) >= 2, "the load changes nothing"
    assert min(pauses) >= timedelta(seconds=4), pauses


def last_change(scene: Demonstration) -> datetime:
    """When the autoscaler changed the number of servers for the last time."""
    return datetime.fromisoformat((scene.api.get(AUTOSCALER) or {})["status"]["lastScaleTime"])
