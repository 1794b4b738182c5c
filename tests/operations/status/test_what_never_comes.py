"""What never comes is bad and says why. What comes by itself only waits."""

from collections.abc import Callable

import pytest

from operations.status.report import Health, Report
from tests.operations.kubernetes_server import KubernetesServer, Object
from tests.operations.status import samples
from tests.operations.status.samples import (
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

HEAD = "couldn't assign flavors to pod set main: "
TOO_MUCH = (
    "insufficient quota for nvidia.com/gpu in flavor {}, previously considered podsets requests ({}) + "
    "current "
    "podset request (8) > maximum capacity (6)"
)
BUSY = "insufficient unused quota for nvidia.com/gpu in flavor spot, 2 more needed"
OTHER = "flavor reservation doesn't match node affinity"


@pytest.mark.parametrize(
    ("reason", "message", "health", "words"),
    [
        (
            "Pending",
            HEAD + TOO_MUCH.format("l4", 0),
            Health.BAD,
            "never runs: it asks for 8 nvidia.com/gpu, the queue has 6 at most (l4)",
        ),
        (
            "ExceedsMaxQuota",
            HEAD + TOO_MUCH.format("l4", 2),
            Health.BAD,
            "never runs: it asks for 2 and 8 nvid",
        ),
        (
            "NoMatchingFlavor",
            HEAD + OTHER,
            Health.BAD,
            "never runs: its nodes cannot be of capacity reservation",
        ),
        (
            "Pending",
            HEAD + "untolerated taint {nvidia.com/gpu present NoSchedule <nil>} in flavor l4",
            Health.BAD,
            "never runs: its pods do not tolerate {nvidia.com/gpu present NoSchedule <nil>} of capacity l4",
        ),
        (
            "Pending",
            HEAD + "resource ephemeral-storage unavailable in ClusterQueue",
            Health.BAD,
            "never runs: the queue has no ephemeral-storage",
        ),
        (
            "Misconfigured",
            "ClusterQueue llm not found",
            Health.BAD,
            "the queue does not take it: ClusterQueue llm",
        ),
        (
            "Misconfigured",
            "resources didn't satisfy LimitRange constraints: spec.x",
            Health.BAD,
            "the queue does not take it: resources didn't satisfy",
        ),
        # One capacity of two that may come free is enough.
        ("Pending", HEAD + f"{OTHER}, {BUSY}", Health.WAITING, f"waits for quota in the queue: {BUSY}"),
        (
            "Pending",
            HEAD + f"{TOO_MUCH.format('l4', 0)}, {BUSY}",
            Health.WAITING,
            "waits for quota in the queue",
        ),
        (
            "WaitingForPodsReady",
            "waiting for all admitted workloads to be in PodsReady condition",
            Health.WAITING,
            "waits for quota in the queue: waiting for all admitted workloads",
        ),
        ("Pending", "", Health.WAITING, "waits for quota in the queue"),
        ("Pending", "a sentence of a later Kueue", Health.WAITING, "the queue: a sentence of a later Kueue"),
    ],
)
def test_a_workload_that_its_queue_can_never_admit_is_bad(
    reason: str,
    message: str,
    health: Health,
    words: str,
    look: Callable[[], Report],
    cluster: KubernetesServer,
) -> None:
    cluster.plant(samples.WORKLOADS, workload("w", condition("QuotaReserved", False, reason, message)))
    report = look()
    assert line(report, "queue").health is health
    assert words in why(report, "queue")


NO_NODE = "Node scale up in zones us-central1-b associated with this pod failed: {} Pod is at risk."


@pytest.mark.parametrize(
    ("reason", "health", "words"),
    [
        ("IP space exhausted.", Health.BAD, "the subnet has no addresses left"),
        ("Reservation capacity exceeded.", Health.WAITING, "all machines of the reservation are in use"),
        ("Reservation mine not found.", Health.BAD, "the reservation cannot be used"),
        ("Constraint constraints/compute.vmExternalIpAccess violated.", Health.BAD, "public addresses"),
        (
            'GCE out of resources. zonesAvailable: "us-central1-f"',
            Health.BAD,
            "now (Google has some in us-cent",
        ),
    ],
)
def test_a_node_that_cannot_be_made_says_why(
    reason: str, health: Health, words: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS, unscheduled())
    cluster.plant(samples.EVENTS, event("FailedScaleUp", NO_NODE.format(reason)))
    report = look()
    assert line(report, "pod").health is health
    assert words in why(report)


PULLING = event("Pulling", "Pulling image")
DESCRIBE = "kubectl --namespace llm describe pod p"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("RunContainerError", "nvidia-container-cli: nvml error: driver/library version mismatch"),
        ("CreateContainerError", "context deadline exceeded"),
        ("ImageInspectError", "x"),
        ("ErrImageNeverPull", "x"),
        ("PreStartHookError", "x"),
        ("A reason that a later kubelet has", "x"),
    ],
)
def test_a_container_that_cannot_start_is_bad_with_the_kubelets_message(
    reason: str, message: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    """An older event of the image says nothing any more."""
    cluster.plant(samples.PODS, waiting(reason, message))
    cluster.plant(samples.EVENTS, PULLING)
    shown = line(look(), "pod")
    assert shown.health is Health.BAD
    assert shown.why and shown.why.text == f"its container cannot start ({reason}): {message}"
    assert shown.why.remedy == DESCRIBE


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_is_being_made_waits(
    reason: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS, waiting(reason))
    assert line(look(), "pod").health is Health.WAITING


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_program_that_is_not_there_has_no_log(
    reason: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS, ended(128, reason, 'exec: "python": executable file not found in $PATH'))
    shown = line(look(), "pod").why
    assert shown and shown.remedy == DESCRIBE
    assert shown.text.startswith('its program could not be started: exec: "python"')


def refusal(reason: str, at: str) -> Object:
    owner = {"kind": "Job", "name": "train", "uid": "uid-train"}
    return {
        "metadata": {"name": reason, "creationTimestamp": at},
        "involvedObject": owner,
        "reason": reason,
        "message": "pods are forbidden: a policy",
    }


def test_a_job_whose_pods_are_refused_is_bad(look: Callable[[], Report], cluster: KubernetesServer) -> None:
    cluster.plant(samples.EVENTS, refusal("FailedCreate", "2026-01-01T00:00:02Z"))
    shown = line(look(), "pods of the job")
    assert (shown.name, shown.health) == ("train", Health.BAD)
    assert shown.why and "the API server refuses them: pods are forbidden" in shown.why.text


def test_a_job_that_has_got_its_pods_since_is_not(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(
        samples.EVENTS,
        refusal("FailedCreate", "2026-01-01T00:00:02Z"),
        refusal("SuccessfulCreate", "2026-01-01T00:00:03Z"),
    )
    assert not [item for item in look().lines if item.kind == "pods of the job"]


def test_a_server_whose_pods_are_refused_is_bad(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    failure = condition("ReplicaFailure", True, "FailedCreate", "pods are forbidden: a policy")
    server = {"metadata": {"name": "vllm"}, "spec": {"replicas": 1}, "status": {"conditions": [failure]}}
    cluster.plant(samples.DEPLOYMENTS, server)
    assert line(look(), "server").health is Health.BAD


JOB = {"metadata": {"name": "good"}, "status": {"active": 1, "ready": 1}}
# Every kind that is read, an object that cannot be read, and one that can.
ODD = [
    (
        samples.NODES,
        {"metadata": {"name": "odd"}, "status": {"allocatable": 7}},
        samples.node("good"),
        "nodes",
    ),
    (samples.JOBS, {"metadata": {"name": "odd"}, "status": 7}, JOB, "job"),
    (
        samples.DEPLOYMENTS,
        {"metadata": {"name": "odd"}, "spec": {"replicas": "two"}},
        {"metadata": {"name": "good"}, "status": {"readyReplicas": 1}},
        "server",
    ),
    (
        samples.RAY_JOBS,
        {"metadata": {"name": "odd"}, "status": [7]},
        {"metadata": {"name": "good"}, "status": {"jobDeploymentStatus": "Complete"}},
        "Ray job",
    ),
    (
        samples.RAY_CLUSTERS,
        {"metadata": {"name": "odd"}, "status": {"conditions": 7}},
        {"metadata": {"name": "good"}, "status": {"state": "ready"}},
        "Ray cluster",
    ),
    (
        samples.WORKLOADS,
        {"metadata": {"name": "odd"}, "spec": {"priority": "high"}},
        workload("good", condition("QuotaReserved", True)),
        "queue",
    ),
    (
        samples.PODS,
        {"metadata": {"name": "odd"}, "status": {"phase": "Pending", "containerStatuses": 7}},
        pod("Running", name="good"),
        "pod",
    ),
]


@pytest.mark.parametrize(("path", "odd", "good", "kind"), ODD)
def test_one_odd_object_hides_no_other_of_its_kind(
    path: str, odd: Object, good: Object, kind: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(path, odd, good)
    report = look()
    assert len([item for item in report.lines if item.kind == kind]) == 1
    assert any(" odd: the answer is not understood" in item for item in report.unseen)
    assert report.exit_status == 2


@pytest.mark.parametrize(
    ("path", "tree", "state"),
    [
        (
            samples.JOBS,
            {
                "metadata": {"name": "x"},
                "status": {
                    "conditions": [condition("Failed", True, "PodFailurePolicy", "failed with exit code 99")]
                },
            },
            "failed",
        ),
        (samples.DEPLOYMENTS, {"metadata": {"name": "x"}, "spec": {"replicas": None}}, "0 of 1 ready"),
    ],
)
def test_an_exit_code_of_nobody_and_a_number_that_is_not_set_are_no_odd_answers(
    path: str, tree: Object, state: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(path, tree)
    report = look()
    assert not report.unseen
    assert state in [item.state for item in report.lines]
