"""Any field of an object may hold anything: the object is shown or named, and hides no other."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import pytest

from operations.status import look as status
from operations.status.cluster import Cluster
from operations.status.report import Line
from tests.operations.status.samples import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    WORKLOADS,
    Object,
    condition,
    event,
    node,
    unscheduled,
    using,
    waiting,
    workload,
)

CLASSES: Final = "/apis/cloud.google.com/v1/computeclasses"
AT: Final = "2026-11-21T09:00:00Z"
# What a field holds instead. The last one is larger than any number of Python's that a text may hold.
VALUES: Final = (7, -1.5, True, None, "x", [], [7], [None], {}, {"a": 7}, "9" * 5000)


def named(name: str, spec: Object, **state: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"a": "b"}, "annotations": {"a": "b"}}
    return {"metadata": metadata, "spec": spec, "status": state}


def ended(name: str) -> Object:
    terminated = {"terminated": {"exitCode": 1, "reason": "Error", "message": "m"}}
    tree = using(waiting("CrashLoopBackOff", "m", name, code=1))
    tree["status"] |= {"phase": "Failed", "reason": "", "message": "m"}
    tree["status"]["containerStatuses"][0]["state"] = terminated
    return tree


FAILED: Final = condition("Failed", True, "PodFailurePolicy", "m", AT)
WAITS: Final = condition("QuotaReserved", False, "Pending", "m", AT)
SUSPENDED: Final = condition("ProvisioningSuspended", True, "OutOfResources", "m", AT)
# Objects with all fields that are read, by what they show, and beside each a good one.
OBJECTS: Final[Mapping[str, tuple[str, Object]]] = {
    "node": (NODES, node("odd")),
    "class": (
        CLASSES,
        named(
            "odd",
            {"priorities": [{"spot": True}]},
            priorityStatuses=[{"identifier": "0", "conditions": [SUSPENDED]}],
            conditions=[condition("CrdMisconfigured", True, "r", "m")],
        ),
    ),
    "job": (
        JOBS,
        named("odd", {"parallelism": 2, "suspend": False}, active=1, ready=1, conditions=[FAILED]),
    ),
    "server": (
        DEPLOYMENTS,
        named(
            "odd", {"replicas": 2}, readyReplicas=1, conditions=[condition("ReplicaFailure", True, "r", "m")]
        ),
    ),
    "Ray job": (
        RAY_JOBS,
        named(
            "odd",
            {"clusterSelector": {"ray.io/cluster": "c"}},
            jobDeploymentStatus="Retrying",
            jobStatus="FAILED",
            message="m",
            reason="r",
            rayClusterName="c",
        ),
    ),
    "Ray cluster": (
        RAY_CLUSTERS,
        named("odd", {}, state="ready", readyWorkerReplicas=1, desiredWorkerReplicas=2),
    ),
    "workload": (WORKLOADS, workload("odd", WAITS, condition("Evicted", True, "Preempted", "m", AT))),
    "pod that waits": (PODS, using(waiting("CrashLoopBackOff", "m", "odd", code=1))),
    "pod that has ended": (PODS, ended("odd")),
    "event of a job": (
        EVENTS,
        {**event("FailedCreate", "m", about="odd"), "series": {"lastObservedTime": AT}},
    ),
    "event of the pod": (EVENTS, event("FailedScaleUp", "m", at="08:00", about="odd")),
}
GOOD: Final[Mapping[str, Object]] = {
    NODES: node("good"),
    CLASSES: named("good", {"priorities": [{"spot": True}]}),
    JOBS: named("good", {}, active=1, ready=1),
    DEPLOYMENTS: named("good", {}, readyReplicas=1),
    RAY_JOBS: named("good", {}, jobDeploymentStatus="Complete"),
    RAY_CLUSTERS: named("good", {}, state="ready"),
    WORKLOADS: workload("good", condition("QuotaReserved", True)),
    PODS: unscheduled(name="good"),
    EVENTS: event("TriggeredScaleUp", "m", about="good"),
}


class Planted:
    """A cluster with these objects, without a server."""

    def __init__(self, objects: Mapping[str, Sequence[Object]]) -> None:
        self._objects = objects

    def every(self, path: str) -> list[Object]:
        return [*self._objects.get(path, ())]

    def text(self, path: str, **query: str) -> str:
        return f"{path}{query}"


def seen(path: str, *more: Object) -> tuple[list[Line], list[str]]:
    """Lines and what is not understood, with objects at a path before the good one."""
    unseen: list[str] = []
    planted = Planted({kind: [*(more if kind == path else ()), tree] for kind, tree in GOOD.items()})
    return [*status._inside(cast(Cluster, planted), ["llm", "ray"], unseen)], unseen


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every field in an object, from its root."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*at, key)
        yield from places(value, (*at, key))


def changed(tree: Object, place: tuple[Any, ...], value: Any) -> Object:
    changed = copy.deepcopy(tree)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def identities(lines: Sequence[Line]) -> set[tuple[str, str, str]]:
    """Kind, name and reason of every line but those that say that nothing uses something."""
    shown = [line for line in lines if not line.kind.startswith("idle")]
    # How many nodes there are follows from the odd one.
    return {(line.kind, line.name, line.why.text if line.why else "") for line in shown}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_with_an_odd_field_hides_no_other(kind: str) -> None:
    path, tree = OBJECTS[kind]
    good, unseen = seen("none")
    assert len(identities(good)) == len(GOOD) - 1 and not unseen
    for place in places(tree):
        for value in VALUES:
            shown, _ = seen(path, changed(tree, place, value))
            assert identities(good) <= identities(shown), (place, value)


def test_no_ray_cluster_is_called_idle_while_a_job_cannot_be_read() -> None:
    workers = named("busy", {}, state="ready", readyWorkerReplicas=2)
    planted = {**{path: [tree] for path, tree in GOOD.items()}, RAY_CLUSTERS: [workers]}
    for spec, words in ((7, "rayjobs odd"), ([7], "rayjobs odd"), ({"clusterSelector": 7}, "idle Ray")):
        unseen: list[str] = []
        planted[RAY_JOBS] = [named("odd", cast(Object, spec))]
        lines = [*status._inside(cast(Cluster, Planted(planted)), ["llm", "ray"], unseen)]
        assert not [line for line in lines if line.kind == "idle Ray cluster"]
        assert any(item.startswith(words) or item.startswith("idle Ray") for item in unseen)
        assert "good" in [line.name for line in lines if line.kind == "pod"]


def test_a_node_pool_with_an_odd_field_hides_no_other() -> None:
    odd: list[Any] = [7, {"status": "ERROR"}, {"name": "odd", "status": "ERROR", "conditions": 7}]
    unseen: list[str] = []
    (shown,) = status._pools([*odd, {"name": "last", "status": "ERROR"}], unseen)
    assert shown.name == "last"
    assert len(unseen) == len(odd)
