"""Accelerators that are billed while nothing of the stack uses them are told."""

from collections.abc import Callable

from operations.status.report import Health, Report
from tests.operations.google_server import REFUSED
from tests.operations.kubernetes_server import KubernetesServer, Object
from tests.operations.status import samples
from tests.operations.status.samples import line, node, pod, unscheduled, using


def on(node_name: str, tree: Object) -> Object:
    """A pod with GPUs on a node."""
    tree["spec"]["nodeName"] = node_name
    return using(tree)


def idle(report: Report) -> list[tuple[str, str, str]]:
    return [(item.kind, item.name, item.state) for item in report.lines if item.kind.startswith("idle")]


def test_nodes_whose_accelerators_no_pod_uses_are_told(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.NODES, *map(node, "abc"))
    cluster.plant(samples.PODS, on("a", pod("Running")), pod("Running", name="without"))
    report = look()
    assert idle(report) == [("idle nodes", "l4-pool", "2 of the pool")]
    shown = line(report, "idle nodes")
    assert shown.health is Health.WAITING
    assert shown.why and "Google bills them" in shown.why.text


def test_nodes_of_a_pod_that_is_about_to_come_are_not(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.NODES, node("a"))
    cluster.plant(samples.PODS, using(unscheduled()))
    assert not idle(look())


def test_a_pod_that_has_ended_uses_nothing(look: Callable[[], Report], cluster: KubernetesServer) -> None:
    cluster.plant(samples.NODES, node("a"))
    cluster.plant(samples.PODS, on("a", pod("Succeeded")))
    assert idle(look())


def test_nothing_is_said_of_nodes_where_pods_cannot_be_read(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.NODES, node("a"))
    cluster.fail(samples.PODS, REFUSED)
    assert not idle(look())


SHARED = {"metadata": {"name": "shared"}, "status": {"state": "ready", "readyWorkerReplicas": 2}}


def ray_job(state: str, **spec: Object) -> Object:
    return {"metadata": {"name": state}, "spec": spec, "status": {"jobDeploymentStatus": state}}


def test_a_shared_ray_cluster_without_a_job_is_told(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.RAY_CLUSTERS, SHARED)
    on_it = {"ray.io/cluster": "shared"}
    cluster.plant(samples.RAY_JOBS, ray_job("Complete", clusterSelector=on_it))
    assert idle(look()) == [("idle Ray cluster", "shared", "2 workers")]
    cluster.plant(samples.RAY_JOBS, ray_job("Running", clusterSelector=on_it))
    assert not idle(look())


def test_the_ray_cluster_of_a_job_is_not(look: Callable[[], Report], cluster: KubernetesServer) -> None:
    own = {"metadata": {"name": "own", "ownerReferences": [{"kind": "RayJob"}]}, "status": SHARED["status"]}
    cluster.plant(samples.RAY_CLUSTERS, own)
    assert not idle(look())
