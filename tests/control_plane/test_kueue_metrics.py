"""What the dashboard of l4-kueue asks about its queue, answered by the real Kueue, to the real Prometheus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import go_build
from engine.go_build import Log
from rehearsal.control_plane import ControlPlane, programs
from rehearsal.control_plane.api import Api, Object
from rehearsal.session import Rehearsal
from tests import plans
from tests.control_plane.demonstration import ONE_SERVER, SETTINGS, TWO_SERVERS, Demonstration
from tests.prometheus import Prometheus, charts, cluster_of, port_of, scrape_config

KUEUE = {
    "apiVersion": "monitoring.googleapis.com/v1",
    "kind": "PodMonitoring",
    "metadata": {"name": "kueue", "namespace": "kueue-system"},
}
CHARTS = ("Workloads in the queue", "Preemptions in an hour", "GPUs of the queue")


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Iterator[Demonstration]:
    with Rehearsal("l4-kueue", SETTINGS, plane=plane) as stack:
        stack.up()
        yield Demonstration(stack=stack, api=plane.api)
        stack.remove()


@pytest.fixture(scope="module")
def prometheus(
    scene: Demonstration, plane: ControlPlane, log: Log, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """Prometheus, from before to after a preemption."""
    go_build.build([programs.PROMETHEUS], log)
    scene.ask_for(ONE_SERVER)
    scene.comes_to(scene.training, (False, 2, 2))
    monitoring = scene.api.get(KUEUE)
    assert monitoring
    _selects_the_managers(scene.api, monitoring)
    cluster = cluster_of(plans.standing_plan(scene.stack))
    job = scrape_config(scene.api, monitoring, {"manager": plane.kueue.metrics}, cluster)
    with Prometheus(tmp_path_factory.mktemp("prometheus"), [job]) as prometheus:
        prometheus.comes_to_know("kueue_admitted_active_workloads")
        scene.ask_for(TWO_SERVERS)
        scene.comes_to(scene.training, (True, 0, 0))
        yield prometheus


def _selects_the_managers(api: Api, monitoring: Object) -> None:
    """The manager is a process here. Its Deployment is the chart's."""
    (deployment,) = api.list("apps/v1", "Deployment", "kueue-system")
    assert port_of(deployment["spec"]["template"], monitoring) == 8443


@pytest.mark.parametrize("title", CHARTS)
def test_every_query_about_the_queue_has_an_answer(
    title: str, scene: Demonstration, prometheus: Prometheus
) -> None:
    for query in charts(plans.standing_plan(scene.stack))[title]:
        prometheus.comes_to_know(query)


def test_the_charts_show_who_waits_and_what_the_servers_have_taken(
    scene: Demonstration, prometheus: Prometheus
) -> None:
    queries = charts(plans.standing_plan(scene.stack))
    admitted, waiting = queries["Workloads in the queue"]
    scene.comes_to(lambda: prometheus.query(admitted)[0][1], 2)
    scene.comes_to(lambda: prometheus.query(waiting)[0][1], 1)
    reserved, quota = queries["GPUs of the queue"]
    scene.comes_to(lambda: (prometheus.query(reserved)[0][1], prometheus.query(quota)[0][1]), (4, 6))
    assert prometheus.query('kueue_preempted_workloads_total{reason="InClusterQueue"}')


def test_without_the_token_kueue_shows_nothing(
    scene: Demonstration, plane: ControlPlane, tmp_path: Path
) -> None:
    monitoring = scene.api.get(KUEUE)
    assert monitoring
    job = scrape_config(scene.api, monitoring, {"manager": plane.kueue.metrics}, "cluster")
    del job["authorization"]
    with Prometheus(tmp_path, [job]) as prometheus:
        scene.comes_to(lambda: "401 Unauthorized" in prometheus.targets(), True)
