"""What cannot be looked at is named, and the rest is shown."""

from collections.abc import Callable

import pytest

from operations.google.clients import Clients
from operations.status import look as status
from operations.status.report import Health, Report
from tests.operations.google_server import A_PAGE, CUT, HALF, REFUSED, SLOW, UNAVAILABLE, Fault, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer, Object
from tests.operations.past_stack import PastStack
from tests.operations.status.samples import (
    JOBS,
    METRICS,
    NODES,
    PODS,
    STOCKOUT,
    line,
    lines_of,
    node,
    why,
)

CLUSTER = "container.projects.locations.clusters.get"


DEEP = Fault(body=b'{"items": ' + b"[" * 100_000)
DEEP_REFUSAL = Fault(code=403, body=b'{"message": ' + b"[" * 100_000)


@pytest.mark.parametrize("fault", [REFUSED, UNAVAILABLE, A_PAGE, HALF, CUT, SLOW, DEEP, DEEP_REFUSAL])
def test_what_the_cluster_does_not_say_is_named_and_the_rest_is_shown(
    fault: Fault,
    look: Callable[[], Report],
    cluster: KubernetesServer,
    metrics: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if fault.hang:
        monkeypatch.setattr("operations.status.cluster._READ_S", 0.5)
    metrics(lines_of(*METRICS))
    cluster.plant(NODES, node("a"))
    cluster.fail(PODS, fault)
    report = look()
    assert line(report, "nodes").state == "1 of 1 ready"
    assert report.progress
    (unseen,) = report.unseen
    assert unseen.startswith(f"pods: {PODS}: ")
    assert "\n" not in unseen


@pytest.mark.parametrize("tree", [{}, {"metadata": {}}, {"metadata": None}])
def test_objects_that_are_none_are_named(
    tree: Object, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(JOBS, tree)
    cluster.plant(PODS, tree)
    assert [item.partition(" (")[0] for item in look().unseen] == [
        "jobs: the answer is not understood",
        "pods: the answer is not understood",
    ]


def test_a_cluster_that_is_gone_is_said(look: Callable[[], Report], google: GoogleServer) -> None:
    google.fail("container.v1", CLUSTER, Fault(code=404, message="gone"))
    shown = line(look(), "cluster")
    assert (shown.state, shown.health) == ("gone", Health.BAD)


def test_a_pool_without_machines_says_why(look: Callable[[], Report], google: GoogleServer) -> None:
    message = "[GCE_STOCKOUT]: Instance creation failed: The zone does not have enough resources available."
    pool = {"name": "l4-pool", "status": "ERROR", "conditions": [{"message": message}]}
    google.plant("container.v1", CLUSTER, {"name": "c", "status": "RUNNING", "nodePools": [pool]})
    assert why(look(), "node pool") == STOCKOUT


def test_a_cluster_that_is_being_made_has_nothing_to_look_into(
    neutral: PastStack, google: GoogleServer, clients: Clients
) -> None:
    google.plant("container.v1", CLUSTER, {"name": "c", "status": "PROVISIONING"})
    report = status.look("neutral", neutral.alive, clients)
    assert line(report, "cluster").state == "provisioning"
    assert report.unseen == ("inside the cluster: the cluster has no address yet",)
