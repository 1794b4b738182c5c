"""How the keeper reads a job from the objects of Kueue and Kubernetes."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from capacity_keeper import cluster
from capacity_keeper.annotations import STOPPED
from capacity_keeper.cluster import held_since, job_of, tries
from capacity_keeper.search import Job, Stage

ADMITTED, CREATED = "2026-11-28T10:00:00Z", "2026-11-28T10:00:05Z"


def workload(*conditions: str, active: bool = True, **annotations: str) -> dict[str, Any]:
    """The workload of a job of two pods on spot, with these conditions."""
    assigned = [
        {"name": "head", "count": 1},
        {"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "spot"}},
    ]
    return {
        "metadata": {"name": "job", "annotations": annotations},
        "spec": {"active": active},
        "status": {
            "admission": {"podSetAssignments": assigned},
            "conditions": [
                {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": ADMITTED}
                for kind in conditions
            ],
        },
    }


def pod(node: str = "", *, group: str = "main", phase: str = "Pending", **metadata: str) -> dict[str, Any]:
    """A pod of the job."""
    return {
        "metadata": {
            "creationTimestamp": CREATED,
            "annotations": {"kueue.x-k8s.io/workload": "job"},
            "labels": {"kueue.x-k8s.io/podset": group},
            **metadata,
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


def waits(since: str) -> Job:
    """The job while it waits for nodes."""
    time = datetime.fromisoformat(since.replace("Z", "+00:00")).astimezone(UTC)
    return Job(name="job", stage=Stage.WAITING, capacity="spot", since=time)


PLACED = Job(name="job", stage=Stage.PLACED, capacity="spot")
# A pod is missing, and none waits for a node.
INCOMPLETE = Job(name="job", stage=Stage.WAITING, capacity="spot")


@pytest.mark.parametrize(
    ("pods", "job"),
    [
        ([pod("node-1"), pod("node-2")], PLACED),
        ([pod("node-1"), pod()], waits(CREATED)),
        # Kueue has admitted it, and its pods are not there yet.
        ([], INCOMPLETE),
        ([pod("node-1")], INCOMPLETE),
        # Pods that have ended, or that are ending, are followed by others. Their nodes may be there.
        ([pod("node-1"), pod("node-2", phase="Failed")], INCOMPLETE),
        ([pod("node-1"), pod("node-2", deletionTimestamp=CREATED)], INCOMPLETE),
        # The head of a Ray cluster, or its submitter, needs no such node.
        ([pod("node-1"), pod("node-2"), pod(group="head")], PLACED),
    ],
)
def test_an_admitted_job_waits_until_all_its_pods_have_nodes(pods: list[dict[str, Any]], job: Job) -> None:
    assert job_of(workload("QuotaReserved", "Admitted"), pods) == job


@pytest.mark.parametrize(
    ("tree", "job"),
    [
        (workload(), Job(name="job", stage=Stage.QUEUED)),
        (workload("QuotaReserved"), Job(name="job", stage=Stage.QUEUED)),
        (workload("QuotaReserved", "Admitted", "Evicted"), Job(name="job", stage=Stage.QUEUED)),
        (workload("Finished"), None),
        # Somebody else has switched it off, who may have a reason.
        (workload("QuotaReserved", active=False), None),
        (
            workload("QuotaReserved", active=False, **{STOPPED: "true"}),
            Job(name="job", stage=Stage.STOPPED, stays=True),
        ),
        (workload(active=False, **{STOPPED: "true"}), Job(name="job", stage=Stage.STOPPED)),
    ],
)
def test_a_job_that_is_not_admitted_is_queued_or_stopped(tree: dict[str, Any], job: Job | None) -> None:
    assert job_of(tree, []) == job


def test_a_stopped_job_stays_until_its_last_pod_has_gone() -> None:
    tree = workload(active=False, **{STOPPED: "true"})
    leaving, ended = pod("node-1", deletionTimestamp=CREATED), pod("node-1", phase="Succeeded")
    assert job_of(tree, [leaving]) == Job(name="job", stage=Stage.STOPPED, stays=True)
    assert job_of(tree, [ended]) == Job(name="job", stage=Stage.STOPPED)


@pytest.mark.parametrize(
    ("reason", "active", "job"),
    [
        ("DeactivatedDueToAdmissionCheck", False, Job(name="job", stage=Stage.LOST)),
        # A person has switched it on, which does not suffice.
        ("DeactivatedDueToAdmissionCheck", True, Job(name="job", stage=Stage.LOST)),
        ("Deactivated", False, None),  # by a person
    ],
)
def test_a_job_that_kueue_has_switched_off_has_lost_its_nodes(
    reason: str, active: bool, job: Job | None
) -> None:
    tree = workload("Evicted", active=active, **{STOPPED: "true"} if job else {})
    tree["status"]["conditions"][0]["reason"] = reason
    assert job_of(tree, []) == job


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-13-01T00:00:00+00:00",
        # No calendar has them in UTC, and one is to come.
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9998-01-01T00:00:00+00:00",
    ],
)
def test_a_hold_that_somebody_has_edited_ends(text: str) -> None:
    assert held_since(text) < datetime(2000, 1, 1, tzinfo=UTC)
    assert held_since("2026-11-28T10:00:00+00:00") == datetime(2026, 11, 28, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "[", "7", "{}", "[" * 100_000])
def test_tries_that_somebody_has_edited_are_forgotten(text: str) -> None:
    assert tries(text) == []
    assert tries('[{"capacity": "spot"}]') == [{"capacity": "spot"}]


def test_the_keeper_sees_its_own_queue_alone_and_an_odd_workload_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, odd, other = workload(), workload(), workload()
    own["spec"]["queueName"] = odd["spec"]["queueName"] = "mine"
    other["spec"]["queueName"] = "another"
    odd["status"]["conditions"] = [{}]
    odd["metadata"]["name"] = "odd"
    monkeypatch.setattr(cluster.ssl, "create_default_context", lambda **_: None)
    keeper = cluster.Cluster("https://api", tmp_path, "llm", "mine")
    answers = {"pods": [], "workloads": [odd, other, own]}
    monkeypatch.setattr(keeper, "_call", lambda _, path: {"items": answers[path.rpartition("/")[2]]})
    assert keeper.jobs() == [Job(name="job", stage=Stage.QUEUED)]
    assert "error: workload odd: KeyError" in capsys.readouterr().out


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every field in an object, from its root."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*at, key)
        yield from places(value, (*at, key))


def changed(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(tree)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cluster.Cluster:
    monkeypatch.setattr(cluster.ssl, "create_default_context", lambda **_: None)
    return cluster.Cluster("https://api", tmp_path, "llm", "mine")


def test_any_odd_field_of_an_object_keeps_no_other_job_from_moving(
    keeper: cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[str, Any] = {}
    monkeypatch.setattr(keeper, "_call", lambda _, path: {"items": answers[path.rpartition("/")[2]]})
    own, odd, there = workload("Admitted"), workload("Admitted", "Evicted"), [pod("n"), pod("n")]
    own["spec"]["queueName"] = odd["spec"]["queueName"] = "mine"
    odd["metadata"]["name"] = "odd"
    values = (7, None, "x", [], [7], {}, True)
    for place in places(odd):
        for value in values:
            answers |= {"pods": there, "workloads": [changed(odd, place, value), 7, own]}
            assert PLACED in keeper.jobs(), (place, value)
    other = pod()
    other["metadata"]["annotations"]["kueue.x-k8s.io/workload"] = "another"
    for place in places(other):
        for value in values:
            answers |= {"pods": [changed(other, place, value), None, *there], "workloads": [own]}
            assert PLACED in keeper.jobs(), (place, value)


@pytest.mark.parametrize("answer", [[], {}, {"items": None}, {"items": 7}, "x", None])
def test_the_keeper_goes_on_after_any_answer(
    answer: Any, keeper: cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "_call", lambda *_: answer)
    for look in (keeper.jobs, lambda: keeper.holds(["spot"])):
        with suppress(*cluster.ODD):
            assert not look()
