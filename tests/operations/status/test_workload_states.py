"""The state of nodes, Jobs and Ray jobs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from operations.clients import Clients
from operations.status.look import Look
from operations.status.report import Health, Report
from tests.operations.conftest import Lived
from tests.operations.google_server import GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.project import PROJECT
from tests.operations.status import samples
from tests.operations.status.reading import line, why
from tests.operations.status.samples import LICENCE, NS, condition

GATED = "the model is gated: the token's account has not accepted its licence"


def test_nodes_are_counted_by_pool_with_their_gpus(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.NODES, samples.node("a"), samples.node("b"), samples.node("c", ready=False))
    found = line(look(), "nodes")
    assert (found.name, found.state) == ("l4-pool", "2 of 3 ready")
    assert found.detail == "g2-standard-24, 6 nvidia.com/gpu"
    assert found.health is Health.WAITING


JOB = {"metadata": {"name": "finetune"}, "spec": {"completions": 2, "parallelism": 2}}
JOBS = {
    "running": ({"status": {"active": 2, "ready": 2}}, "running", Health.GOOD),
    "starting": ({"status": {"active": 2}}, "starting", Health.WAITING),
    "suspended": ({"spec": {"suspend": True, "completions": 2}}, "suspended", Health.WAITING),
    "complete": (
        {"status": {"succeeded": 2, "conditions": [condition("Complete", True)]}},
        "complete",
        Health.GOOD,
    ),
    "failed": (
        {"status": {"conditions": [condition("Failed", True, "PodFailurePolicy")]}},
        "failed",
        Health.BAD,
    ),
}


@pytest.mark.parametrize("case", JOBS)
def test_the_state_of_a_job(case: str, look: Callable[[], Report], cluster: KubernetesServer) -> None:
    fields, state, health = JOBS[case]
    cluster.plant(samples.JOBS.format(NS), {**JOB, **fields})
    found = line(look(), "job")
    assert (found.state, found.health) == (state, health)


RAY_JOBS = {
    "new": ({}, "new", Health.WAITING),
    "starting": ({"jobDeploymentStatus": "Initializing"}, "initializing", Health.WAITING),
    "running": ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "running", Health.GOOD),
    "complete": ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "complete", Health.GOOD),
    "failed in Ray": (
        {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED", "message": LICENCE},
        "failed",
        Health.BAD,
    ),
    "failed before": ({"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"}, "failed", Health.BAD),
}


@pytest.mark.parametrize("case", RAY_JOBS)
def test_the_state_of_a_ray_job(
    case: str, a4_ray: Lived, google: GoogleServer, cluster: KubernetesServer, tmp_path: Path
) -> None:
    status, state, health = RAY_JOBS[case]
    cluster.plant(samples.RAY_JOBS.format("ray"), {"metadata": {"name": "vision"}, "status": status})
    workers = {"state": "ready", "readyWorkerReplicas": 1, "desiredWorkerReplicas": 2}
    cluster.plant(samples.RAY_CLUSTERS.format("ray"), {"metadata": {"name": "vision-x"}, "status": workers})
    clients = Clients(PROJECT, google.address, timeout_s=0.5)
    report = Look("a4-ray", a4_ray.alive, clients, cluster.kubeconfig(tmp_path)).report()
    found = line(report, "Ray job")
    assert (found.state, found.health) == (state, health)
    assert line(report, "Ray cluster").detail == "1 of 2 workers ready"
    if case == "failed in Ray":
        assert why(report, "Ray job") == GATED
