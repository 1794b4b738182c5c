"""Who is admitted, and who waits at which place."""

from collections.abc import Callable

from operations.status.report import Report
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.status import samples
from tests.operations.status.reading import line, why
from tests.operations.status.samples import NS, condition, workload

SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor l4"
PREEMPTED = condition("Evicted", True, "Preempted", "", "2026-11-21T09:30:00Z")
NO_QUOTA = condition("QuotaReserved", False, "Pending", SHORT)


def test_the_queue_shows_who_is_admitted_and_the_places_of_the_others(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    admitted = [condition("QuotaReserved", True), condition("Admitted", True)]
    cluster.plant(
        samples.WORKLOADS.format(NS),
        workload("training", PREEMPTED, NO_QUOTA, priority=10),
        workload("later", NO_QUOTA, priority=10, created="2026-11-21T11:00:00Z"),
        workload("server-2", NO_QUOTA, priority=20, created="2026-11-21T12:00:00Z"),
        workload("server-1", *admitted, priority=20),
        workload("done", condition("Finished", True)),
    )
    lines = [each for each in look().lines if each.kind == "queue"]
    assert [(each.name, each.state) for each in lines] == [
        ("server-1", "admitted"),
        ("server-2", "number 1 in the queue"),
        ("training", "number 2 in the queue"),
        ("later", "number 3 in the queue"),
    ]
    assert lines[2].why and lines[2].why.text.startswith("pre-empted by a higher priority; waits for quota")
    assert lines[1].why and "insufficient unused quota for nvidia.com/gpu" in lines[1].why.text


def test_training_that_saves_before_it_gives_its_gpus_up_is_stopping(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    admitted = [condition("QuotaReserved", True), condition("Admitted", True)]
    cluster.plant(samples.WORKLOADS.format(NS), workload("training", *admitted, PREEMPTED))
    report = look()
    assert line(report, "queue").state == "stopping"
    assert why(report, "queue") == "pre-empted by a higher priority"


def test_kueues_own_count_of_places_weighs_more(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.WORKLOADS.format(NS), workload("training", NO_QUOTA))
    cluster.plant(samples.PENDING.format(NS), {"metadata": {"name": "training"}, "positionInClusterQueue": 4})
    assert line(look(), "queue").state == "number 5 in the queue"


def test_a_workload_that_its_queue_never_takes_needs_somebody(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    reserved = condition("QuotaReserved", False, "Inadmissible", "ClusterQueue llm is inactive")
    cluster.plant(samples.WORKLOADS.format(NS), workload("training", reserved))
    found = why(look(), "queue")
    assert found == "the queue does not take it: ClusterQueue llm is inactive"
