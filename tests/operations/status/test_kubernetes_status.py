"""The state of nodes, pods and workloads, why one waits or has ended, and who is where in the queue."""

import json
from collections.abc import Callable
from dataclasses import asdict
from urllib.parse import parse_qs, urlsplit

import pytest

from operations.status.report import Health, Report
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.status import samples
from tests.operations.status.samples import (
    GATED,
    LICENCE,
    QUOTA,
    STOCKOUT,
    Object,
    condition,
    ended,
    event,
    line,
    pod,
    unscheduled,
    waiting,
    why,
    workload,
)

GOOD, WAITING, BAD = Health

KINDS = {samples.PODS: "pod", samples.JOBS: "job", samples.RAY_JOBS: "Ray job"}
FULL = "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."


def status(**fields: object) -> Object:
    return {"metadata": {"name": "x"}, "spec": {"parallelism": 2}, "status": fields}


# As Kubernetes 1.36 words it.
FAIL_JOB = "Container finetune for pod llm/x-0 failed with exit code {} matching FailJob rule at index 2"


@pytest.mark.parametrize(
    ("path", "tree", "state", "health", "words"),
    [
        (samples.JOBS, status(active=2, ready=2), "running", GOOD, ""),
        (samples.JOBS, status(active=2), "starting", WAITING, ""),
        (samples.JOBS, {"metadata": {"name": "x"}, "spec": {"suspend": True}}, "suspended", WAITING, ""),
        (samples.JOBS, status(conditions=[condition("Complete", True)]), "complete", GOOD, ""),
        (
            samples.JOBS,
            status(conditions=[condition("Failed", True, "PodFailurePolicy", FAIL_JOB.format(2))]),
            "failed",
            BAD,
            "the input is wrong; it is not tried again",
        ),
        (
            samples.JOBS,
            status(conditions=[condition("Failed", True, "PodFailurePolicy", FAIL_JOB.format(3))]),
            "failed",
            BAD,
            "maxRunHours or idleMinutes reached; it is not tried again",
        ),
        (samples.RAY_JOBS, status(), "new", WAITING, ""),
        (samples.RAY_JOBS, status(jobDeploymentStatus="Initializing"), "initializing", WAITING, ""),
        (samples.RAY_JOBS, status(jobDeploymentStatus="Running", jobStatus="RUNNING"), "running", GOOD, ""),
        (samples.RAY_JOBS, status(jobDeploymentStatus="Complete"), "complete", GOOD, ""),
        (samples.RAY_JOBS, status(jobDeploymentStatus="Failed", reason="Late"), "failed", BAD, "Late"),
        (
            samples.RAY_JOBS,
            status(jobDeploymentStatus="Failed", jobStatus="FAILED", message=LICENCE),
            "failed",
            BAD,
            GATED,
        ),
        (
            samples.RAY_JOBS,
            status(jobDeploymentStatus="Retrying", jobStatus="FAILED", message=LICENCE),
            "retrying",
            WAITING,
            f"a try failed, the next gets a new Ray cluster: {LICENCE}",
        ),
        (
            samples.RAY_JOBS,
            status(
                jobDeploymentStatus="Complete", jobStatus="STOPPED", message="Job was intentionally stopped."
            ),
            "stopped",
            BAD,
            "it was stopped before its end: its input is wrong, maxRunHours is over, or somebody stopped it",
        ),
        (
            samples.RAY_JOBS,
            status(jobDeploymentStatus="ValidationFailed", message="the name is too long"),
            "rejected",
            BAD,
            "the Ray operator rejects it: the name is too long",
        ),
        (samples.PODS, pod("Running"), "running", GOOD, ""),
        (samples.PODS, pod("Succeeded"), "succeeded", GOOD, ""),
        (
            samples.PODS,
            pod("Failed", reason="Evicted", message=FULL),
            "failed",
            BAD,
            "the disk of the pod or its node is full",
        ),
        (
            samples.PODS,
            {"metadata": {"name": "x"}, "status": []},
            "unknown",
            WAITING,
            "no node takes it: no reason given",
        ),
    ],
)
def test_the_state_of_an_object(
    path: str,
    tree: Object,
    state: str,
    health: Health,
    words: str,
    look: Callable[[], Report],
    cluster: KubernetesServer,
) -> None:
    cluster.plant(path, tree)
    report = look()
    shown = line(report, KINDS[path])
    assert (shown.state, shown.health, why(report, shown.kind)) == (state, health, words)


def test_nodes_and_workers_are_counted(look: Callable[[], Report], cluster: KubernetesServer) -> None:
    cluster.plant(samples.NODES, *map(samples.node, "ab"), samples.node("c", ready=False))
    cluster.plant(samples.RAY_CLUSTERS, status(state="ready", readyWorkerReplicas=1, desiredWorkerReplicas=2))
    report = look()
    nodes, ray = line(report, "nodes"), line(report, "Ray cluster")
    assert (nodes.name, nodes.state, nodes.health) == ("l4-pool", "2 of 3 ready", WAITING)
    assert nodes.detail == "g2-standard-24, 6 nvidia.com/gpu"
    assert (ray.detail, ray.health) == ("1 of 2 workers ready", WAITING)


def leaving(*finalizers: str) -> Object:
    """A pod of node-1 that is being deleted."""
    tree = pod("Running")
    tree["metadata"] |= {"deletionTimestamp": "2026-11-21T10:00:00Z", "finalizers": [*finalizers]}
    return tree


TRACKED = "batch.kubernetes.io/job-tracking"


@pytest.mark.parametrize(
    ("tree", "ready", "waits"),
    [
        (leaving(TRACKED), False, True),
        (leaving(TRACKED), True, False),
        (leaving("another"), False, False),
        (leaving(), False, False),
    ],
)
def test_a_job_that_waits_for_a_node_that_is_cut_off_says_so(
    tree: Object, ready: bool, waits: bool, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.NODES, samples.node("node-1", ready=ready))
    cluster.plant(samples.PODS, tree)
    report = look()
    shown = line(report, "pod")
    assert (shown.state, shown.health) == ("ending", WAITING)
    text = "its Job waits for node node-1, which is cut off: another pod comes when the node object goes"
    assert why(report) == (text if waits else "")
    assert not waits or (shown.why and shown.why.remedy.endswith("kubectl delete node node-1"))


NO_NODE = "pod didn't trigger scale-up: 1"
NOT_THERE = "a secret or the code that it mounts is not there"
NO_CODE = 'MountVolume.SetUp failed for volume "code": configmap "x" not found'


@pytest.mark.parametrize(
    ("tree", "reason", "message", "words"),
    [
        (unscheduled(), "FailedScaleUp", "scale up failed: GCE out of resources.", STOCKOUT),
        (unscheduled(), "FailedScaleUp", "scale up failed: GCE quota exceeded.", QUOTA),
        (
            unscheduled(),
            "NotTriggerScaleUp",
            f"{NO_NODE} node(s) didn't match Pod's node affinity",
            "no node that the cluster may make would take it",
        ),
        (
            unscheduled(),
            "NotTriggerScaleUp",
            f"{NO_NODE} max node group size reached",
            "its node pool is at its largest",
        ),
        (unscheduled(), "TriggeredScaleUp", "pod triggered scale-up", "a node is being made for it"),
        (
            unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu, 1 Insufficient cpu."),
            "",
            "",
            "no node has enough nvidia.com/gpu and cpu free",
        ),
        (
            unscheduled("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."),
            "",
            "",
            "no node is what it asks for (reservation, GPU, zone)",
        ),
        (unscheduled("", "SchedulingGated"), "", "", "waits in the queue: Kueue has not admitted it"),
        (waiting("ImagePullBackOff", 'Back-off pulling image "x"'), "", "", "its image cannot be pulled"),
        (
            waiting("ErrImagePull", "x: not found, image"),
            "",
            "",
            "the image does not exist",
        ),
        (waiting("ErrImagePull", "unexpected status: 403 Forbidden"), "", "", "the image may not be read"),
        (waiting("CreateContainerConfigError", 'secret "x" not found'), "", "", NOT_THERE),
        (waiting("CreateContainerConfigError"), "", "", NOT_THERE),
        (waiting("InvalidImageName"), "", "", "the name of its image is wrong"),
        (waiting("ContainerCreating"), "Pulling", "Pulling image", "its image is being pulled"),
        (waiting("ContainerCreating"), "FailedMount", NO_CODE, NOT_THERE),
    ],
)
def test_why_a_pod_waits_is_said_in_plain_words(
    tree: Object,
    reason: str,
    message: str,
    words: str,
    look: Callable[[], Report],
    cluster: KubernetesServer,
) -> None:
    """By the newest event that is about it."""
    events = [event(reason, message), event("FailedScaleUp", "no IP", at="09:00")] if reason else []
    other = event("FailedScaleUp", "GCE quota exceeded", at="11:00", about="another")
    cluster.plant(samples.PODS, tree)
    cluster.plant(samples.EVENTS, other, *events)
    assert why(look()) == words


SECRET = "hf_planted_in_a_test"
UNKNOWN_TOKEN = "the Hub does not know the token in HF_TOKEN"


@pytest.mark.parametrize(
    ("tree", "log", "words"),
    [
        (ended(2), LICENCE, GATED),
        (waiting("CrashLoopBackOff", code=1), "GatedRepoError: 403", GATED),
        (ended(2), UNKNOWN_TOKEN, "Hugging Face does not know the token"),
        (ended(1), "torch.OutOfMemoryError: CUDA out of memory.", "the GPU's memory is full"),
        (ended(137, "OOMKilled"), "", "it needed more memory than its limit"),
        (ended(2), "recipe x has no field y", "the input is wrong"),
        (ended(7), None, "it ended with exit code 7"),
        (ended(143), "", "stopped and saved"),
    ],
)
def test_why_a_container_ended_is_said_and_its_log_is_not_shown(
    tree: Object, log: str | None, words: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS, tree)
    if log is not None:
        cluster.plant_log(f"{samples.PODS}/p/log", f"loading with {SECRET}\n{log}\n")
    report = look()
    assert why(report) == words
    assert SECRET not in json.dumps(asdict(report), default=str)


@pytest.mark.parametrize(
    ("code", "container", "words"),
    [
        (2, "trial", "the run would fail: model m: it has no padding token"),
        (2, "main", "the input is wrong"),
        (1, "trial", "it ended with exit code 1"),
    ],
)
def test_a_trial_that_failed_is_shown_with_its_own_sentence(
    code: int, container: str, words: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    log = f"Traceback of {SECRET}\nerror: model m: it has no padding token\n"
    cluster.plant(samples.PODS, ended(code, message=log, container=container))
    report = look()
    assert why(report) == words
    assert SECRET not in json.dumps(asdict(report), default=str)


@pytest.mark.parametrize(
    ("tree", "previous"), [(waiting("CrashLoopBackOff", code=1), ["true"]), (ended(1), None)]
)
def test_the_reason_of_a_crash_loop_is_read_from_the_try_that_ended(
    tree: Object, previous: list[str] | None, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    """The newest try has just begun and has nothing to say yet."""
    phase = "Running" if previous else "Failed"
    mine = {**tree, "status": {**tree["status"], "phase": phase}}
    cluster.plant(samples.PODS, mine)
    cluster.plant_log(f"{samples.PODS}/p/log", "GatedRepoError: 403")
    assert why(look()) == GATED
    (asked,) = (urlsplit(path) for path in cluster.asked if "/log" in path)
    assert asked.path == f"{samples.PODS}/p/log"
    assert parse_qs(asked.query).get("previous") == previous


def test_where_nothing_known_is_said_the_log_is_the_remedy(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS, ended(7))
    shown = line(look(), "pod").why
    assert shown and shown.remedy == "kubectl --namespace llm logs p"


SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor l4"
PREEMPTED = condition("Evicted", True, "Preempted", "", "2026-11-21T09:30:00Z")
NO_QUOTA = condition("QuotaReserved", False, "Pending", SHORT)
ADMITTED = condition("QuotaReserved", True), condition("Admitted", True)
INACTIVE = condition("QuotaReserved", False, "Inadmissible", "ClusterQueue llm is inactive")


def test_the_queue_shows_who_is_admitted_and_the_places_of_the_others(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(
        samples.WORKLOADS,
        workload("training", PREEMPTED, NO_QUOTA, priority=10),
        workload("later", NO_QUOTA, priority=10, created="11:00"),
        workload("server-2", NO_QUOTA, priority=20, created="12:00"),
        workload("server-1", *ADMITTED, priority=20),
        workload("done", condition("Finished", True)),
    )
    lines = [item for item in look().lines if item.kind == "queue"]
    assert [(item.name, item.state) for item in lines] == [
        ("server-1", "admitted"),
        ("server-2", "number 1 in the queue"),
        ("training", "number 2 in the queue"),
        ("later", "number 3 in the queue"),
    ]
    assert lines[2].why and lines[2].why.text.startswith("preempted by a higher priority; waits for quota")
    assert lines[1].why and "insufficient unused quota for nvidia.com/gpu" in lines[1].why.text


@pytest.mark.parametrize(
    ("conditions", "state", "words"),
    [
        # Training saves before it gives its GPUs up.
        ((*ADMITTED, PREEMPTED), "stopping", "preempted by a higher priority"),
        ((INACTIVE,), "number 1 in the queue", "the queue does not take it: ClusterQueue llm is inactive"),
    ],
)
def test_why_a_workload_waits_or_stops_is_said(
    conditions: tuple[Object, ...],
    state: str,
    words: str,
    look: Callable[[], Report],
    cluster: KubernetesServer,
) -> None:
    cluster.plant(samples.WORKLOADS, workload("training", *conditions))
    report = look()
    assert (line(report, "queue").state, why(report, "queue")) == (state, words)
