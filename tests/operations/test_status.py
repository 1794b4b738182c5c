"""What a stack is doing, and why something of it waits, in plain words."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from operations.__main__ import main
from operations.clients import Clients
from operations.status import command
from operations.status.look import Look
from operations.status.report import Health, Line, Report
from rehearsal.discovery import Call
from tests.operations import status_samples as samples
from tests.operations.conftest import Lived
from tests.operations.google_server import A_PAGE, CUT, HALF, REFUSED, SLOW, UNAVAILABLE, Fault, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer, Object
from tests.operations.project import PROJECT
from tests.operations.status_samples import condition, ended, event, pod, unscheduled, waiting, workload

NS = "llm"
NO_NODE = "pod didn't trigger scale-up"
GATED = "the model is gated: the token's account has not accepted its licence"
LICENCE = "ValueError: model google/gemma-3-4b-it is gated and the token in HF_TOKEN gives no access"
SECRET = "hf_planted_in_a_test"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesServer]:
    # A test does not wait for an answer that never comes, nor between two tries.
    monkeypatch.setattr("operations.status.cluster._READ_S", 0.5)
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    with KubernetesServer() as server:
        yield server


@pytest.fixture
def google(google: GoogleServer, l4_kueue: Lived) -> GoogleServer:
    """GKE knows the cluster, and that all is well."""
    name = l4_kueue.name(":Cluster")
    google.plant(
        "container.v1",
        "container.projects.locations.clusters.get",
        {"name": name, "status": "RUNNING", "nodePools": [{"name": "l4-pool", "status": "RUNNING"}]},
    )
    return google


@pytest.fixture
def look(
    l4_kueue: Lived, google: GoogleServer, cluster: KubernetesServer, tmp_path: Path
) -> Callable[[], Report]:
    clients = Clients(PROJECT, google.endpoint, timeout_s=0.5, pause=lambda _: None)
    return Look("l4-kueue", l4_kueue.alive, clients, cluster.kubeconfig(tmp_path)).report


def line(report: Report, kind: str) -> Line:
    (found,) = [each for each in report.lines if each.kind == kind]
    return found


def why(report: Report, kind: str = "pod") -> str:
    found = line(report, kind)
    assert found.why, found
    return found.why.text


# Why a pod waits


PENDING = {
    "stockout": (
        unscheduled("p"),
        [event("p", "FailedScaleUp", "Node scale up in zones us-central1-a failed: GCE out of resources.")],
        "stockout: Google has no such machine there now",
    ),
    "quota": (
        unscheduled("p"),
        [event("p", "FailedScaleUp", "Node scale up in zones us-central1-a failed: GCE quota exceeded.")],
        "quota: the project may not have that many in the region",
    ),
    "no node fits": (
        unscheduled("p"),
        [
            event(
                "p",
                "NotTriggerScaleUp",
                "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity",
            )
        ],
        "no node that the cluster may make would take it",
    ),
    "pool at its largest": (
        unscheduled("p"),
        [event("p", "NotTriggerScaleUp", f"{NO_NODE}: 1 max node group size reached")],
        "its node pool is at its largest",
    ),
    "a node is coming": (
        unscheduled("p"),
        [
            event("p", "FailedScaleUp", "GCE out of resources", at="2026-11-21T09:00:00Z"),
            event("p", "TriggeredScaleUp", "pod triggered scale-up", at="2026-11-21T09:10:00Z"),
        ],
        "a node is being made for it",
    ),
    "not enough GPUs": (
        unscheduled("p", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu, 1 Insufficient cpu."),
        [],
        "no node has enough nvidia.com/gpu and cpu free",
    ),
    "wrong selector": (
        unscheduled("p", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."),
        [],
        "no node is what it asks for (reservation, GPU, zone)",
    ),
    "in the queue": (
        unscheduled("p", "Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        [],
        "waits in the queue: Kueue has not admitted it",
    ),
    "image pull": (
        waiting("p", "ImagePullBackOff", 'Back-off pulling image "us-docker.pkg.dev/p/images/x@sha256:aa"'),
        [],
        "its image cannot be pulled",
    ),
    "image missing": (
        waiting("p", "ErrImagePull", "failed to resolve us-docker.pkg.dev/p/images/x: not found, image"),
        [],
        "the image does not exist",
    ),
    "image forbidden": (
        waiting("p", "ErrImagePull", "failed to fetch oauth token: unexpected status: 403 Forbidden"),
        [],
        "the image may not be read",
    ),
    "secret missing": (
        waiting("p", "CreateContainerConfigError", 'secret "hf-token" not found'),
        [],
        "a secret or the code that it mounts is not there",
    ),
    "pulling": (
        waiting("p", "ContainerCreating"),
        [event("p", "Pulling", "Pulling image")],
        "its image is being pulled",
    ),
    "code not mounted": (
        waiting("p", "ContainerCreating"),
        [event("p", "FailedMount", 'MountVolume.SetUp failed for volume "code": configmap "x" not found')],
        "a secret or the code that it mounts is not there",
    ),
}


@pytest.mark.parametrize("case", PENDING)
def test_why_a_pod_waits_is_said_in_plain_words(
    case: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    tree, events, words = PENDING[case]
    cluster.plant(samples.PODS.format(NS), tree)
    cluster.plant(samples.EVENTS.format(NS), *events, event("another", "FailedScaleUp", "GCE quota exceeded"))
    assert why(look()) == words


ENDED = {
    "gated model": (
        ended("p", 2),
        LICENCE,
        "the model is gated: the token's account has not accepted its licence",
    ),
    "gated model, tried again": (
        samples.crashing("p", 1),
        "GatedRepoError: 403",
        "the model is gated: the token's",
    ),
    "unknown token": (
        ended("p", 2),
        "the Hub does not know the token in HF_TOKEN",
        "Hugging Face does not know",
    ),
    "GPU memory": (ended("p", 1), "torch.OutOfMemoryError: CUDA out of memory.", "the GPU's memory is full"),
    "memory": (ended("p", 137, "OOMKilled"), "", "it needed more memory than its limit"),
    "bad input": (ended("p", 2), "recipe x has no field y", "its input is wrong"),
    "anything else": (ended("p", 7), "", "it ended with exit code 7"),
    "told to stop": (ended("p", 143), "", "it was told to stop, and saved"),
}


@pytest.mark.parametrize("case", ENDED)
def test_why_a_container_ended_is_said_and_its_log_is_not_shown(
    case: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    tree, log, words = ENDED[case]
    cluster.plant(samples.PODS.format(NS), tree)
    cluster.plant_log(f"{samples.PODS.format(NS)}/p/log", f"loading with {SECRET}\n{log}\n")
    report = look()
    assert why(report).startswith(words)
    assert SECRET not in json.dumps(command.as_json(report))


def test_a_log_that_may_not_be_read_leaves_the_exit_code(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS.format(NS), ended("p", 7))
    report = look()
    assert why(report) == "it ended with exit code 7"
    found = line(report, "pod").why
    assert found and found.remedy == "kubectl --namespace llm logs p"


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_that_is_well_needs_no_words(
    phase: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS.format(NS), pod("p", phase))
    found = line(look(), "pod")
    assert (found.why, found.health) == (None, Health.GOOD)


def test_an_evicted_pod_says_what_was_short(look: Callable[[], Report], cluster: KubernetesServer) -> None:
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."
    cluster.plant(samples.PODS.format(NS), pod("p", "Failed", reason="Evicted", message=message))
    assert why(look()) == "the disk of the pod or its node is full"


# Nodes and workloads


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
    clients = Clients(PROJECT, google.endpoint, timeout_s=0.5, pause=lambda _: None)
    report = Look("a4-ray", a4_ray.alive, clients, cluster.kubeconfig(tmp_path)).report()
    found = line(report, "Ray job")
    assert (found.state, found.health) == (state, health)
    assert line(report, "Ray cluster").detail == "1 of 2 workers ready"
    if case == "failed in Ray":
        assert why(report, "Ray job") == GATED


# The queue


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
    assert "insufficient unused quota for nvidia.com/gpu" in lines[1].why.text if lines[1].why else False


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


# The training


METRICS = [
    {"step": 1, "steps": 40, "loss": 2.5, "tokens_per_second": 900.0, "seconds_left": 4000.0},
    {"step": 2, "eval_loss": 2.25, "eval_token_accuracy": 0.5},
    {"step": 2, "steps": 40, "loss": 2.0, "tokens_per_second": 1000.0, "seconds_left": 3900.0},
]


@pytest.fixture
def metrics(google: GoogleServer) -> Callable[..., None]:
    def plant(content: bytes, *, finished: bool = False) -> None:
        def answer(call: Call, _body: Any) -> Any:
            if call.query.get("alt") == "media":
                raise Fault(body=content)
            return {"name": call.address["object"], "updated": "2026-11-21T09:58:00.000Z"}

        google.plant("storage.v1", "storage.objects.get", answer)
        google.plant(
            "storage.v1",
            "storage.objects.list",
            {"items": [{"name": "run/COMPLETE.json"}]} if finished else {},
        )

    return plant


def lines_of(*metrics: Object) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in metrics).encode()


def test_the_training_shows_step_loss_speed_and_time_to_go(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(lines_of(*METRICS))
    course = look().course
    assert course
    now = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    words = "step 2 of 40, loss 2.0000, evaluation loss 2.2500, 1000 tokens/s, 1 h 05 min to go"
    assert course.line(now) == f"{words}, written 2 min ago"
    assert (course.losses, course.evaluations) == (((1, 2.5), (2, 2.0)), ((2, 2.25),))


def test_a_finished_training_says_so(look: Callable[[], Report], metrics: Callable[..., None]) -> None:
    metrics(lines_of(*METRICS), finished=True)
    course = look().course
    assert course
    assert course.line(datetime.now(UTC)).endswith("1000 tokens/s, finished")


@pytest.mark.parametrize("content", [None, b"", b"\n"])
def test_a_training_that_has_logged_nothing_is_no_problem(
    content: bytes | None, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    if content is not None:
        metrics(content)
    report = look()
    assert (report.course, report.unseen) == (None, ())


@pytest.mark.parametrize("content", [b"<html>", b'{"loss": 1}\n', b"[1]\n", b'{"step": 1, "loss"', b"\xff\n"])
def test_metrics_that_are_none_are_said(
    content: bytes, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(content)
    report = look()
    assert report.course is None
    assert "line 1 is not what the training writes" in report.unseen[0]


# When it cannot look


@pytest.mark.parametrize("fault", [REFUSED, UNAVAILABLE, A_PAGE, HALF, CUT, SLOW])
def test_what_the_cluster_does_not_say_is_named_and_the_rest_is_shown(
    fault: Fault, look: Callable[[], Report], cluster: KubernetesServer, metrics: Callable[..., None]
) -> None:
    metrics(lines_of(*METRICS))
    cluster.plant(samples.NODES, samples.node("a"))
    cluster.fail(samples.PODS.format(NS), fault)
    report = look()
    assert line(report, "nodes").state == "1 of 1 ready"
    assert report.course
    (unseen,) = report.unseen
    assert unseen.startswith("/api/v1/namespaces/llm/pods: /api/v1/namespaces/llm/pods: ")
    assert "\n" not in unseen


@pytest.mark.parametrize(
    "tree", [{}, {"metadata": {}}, {"metadata": {"name": "x"}, "status": []}, {"metadata": None}]
)
def test_objects_that_are_none_are_named(
    tree: Object, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.JOBS.format(NS), tree)
    cluster.plant(samples.PODS.format(NS), tree)
    report = look()
    assert [each for each in report.unseen if "not understood" in each] or report.lines


def test_a_cluster_that_is_gone_is_said(look: Callable[[], Report], google: GoogleServer) -> None:
    google.fail("container.v1", "container.projects.locations.clusters.get", Fault(code=404, message="gone"))
    found = line(look(), "cluster")
    assert (found.state, found.health) == ("gone", Health.BAD)


def test_a_pool_without_machines_says_why(look: Callable[[], Report], google: GoogleServer) -> None:
    message = "[GCE_STOCKOUT]: Instance creation failed: The zone does not have enough resources available."
    pool = {
        "name": "l4-pool",
        "status": "ERROR",
        "conditions": [{"code": "GCE_STOCKOUT", "message": message}],
    }
    google.plant(
        "container.v1",
        "container.projects.locations.clusters.get",
        {"name": "c", "status": "RUNNING", "nodePools": [pool]},
    )
    assert why(look(), "node pool") == "stockout: Google has no such machine there now"


def test_a_cluster_that_is_being_made_has_nothing_to_look_into(l4_kueue: Lived, google: GoogleServer) -> None:
    answer = {"name": "c", "status": "PROVISIONING"}
    google.plant("container.v1", "container.projects.locations.clusters.get", answer)
    clients = Clients(PROJECT, google.endpoint, timeout_s=0.5, pause=lambda _: None)
    report = Look("l4-kueue", l4_kueue.alive, clients).report()
    assert line(report, "cluster").state == "provisioning"
    assert report.unseen == ("inside the cluster: the cluster has no address yet",)


# Cloud Run


def execution(*conditions: Object, **counts: Any) -> Object:
    where = f"projects/{PROJECT}/locations/us-central1/jobs/j/executions"
    return {
        "name": f"{where}/j-abc",
        "createTime": "2026-11-21T09:00:00Z",
        "taskCount": 1,
        "conditions": [*conditions],
        **counts,
    }


def completed(state: str, message: str = "", **more: str) -> Object:
    return {"type": "Completed", "state": f"CONDITION_{state}", "message": message, **more}


EXECUTIONS = {
    "running": (execution(completed("RECONCILING"), runningCount=1), [], "running", ""),
    "complete": (execution(completed("SUCCEEDED"), succeededCount=1), [], "complete", ""),
    "quota": (
        execution(
            completed("PENDING", "Quota exceeded for total allowable count of GPUs per project per region.")
        ),
        [],
        "pending",
        "quota: the project may not have that many in the region",
    ),
    "no machine free": (
        execution(completed("PENDING", executionReason="DELAYED_START_PENDING")),
        [],
        "pending",
        "Cloud Run has no such machine free; it starts when there is one",
    ),
    "gated": (
        execution(
            completed("FAILED", "Task j-abc-task0 failed with message: The container exited with an error."),
            failedCount=1,
        ),
        [LICENCE],
        "failed",
        "the model is gated: the token's account has not accepted its licence",
    ),
    "failed": (
        execution(completed("FAILED", "The configured timeout was reached."), failedCount=1),
        ["nothing known"],
        "failed",
        "The configured timeout was reached",
    ),
}


@pytest.mark.parametrize("case", EXECUTIONS)
def test_the_newest_execution_of_the_job(case: str, cloudrun: Lived, google: GoogleServer) -> None:
    tree, log, state, words = EXECUTIONS[case]
    older = {**tree, "name": f"{tree['name']}-old", "createTime": "2026-11-20T09:00:00Z"}
    google.plant("run.v2", "run.projects.locations.jobs.executions.list", {"executions": [older, tree]})
    entries = [{"textPayload": text} for text in log]
    google.plant("logging.v2", "logging.entries.list", {"entries": entries})
    clients = Clients(PROJECT, google.endpoint, timeout_s=0.5, pause=lambda _: None)
    found = line(Look("cloudrun-vllm", cloudrun.alive, clients).report(), "Cloud Run execution")
    assert (found.name, found.state) == ("j-abc", state)
    assert (found.why.text if found.why else "") == words


SERVICES = {
    "ready": ({"type": "Ready", "state": "CONDITION_SUCCEEDED"}, "ready", ""),
    "rolling out": (
        {"type": "Ready", "state": "CONDITION_RECONCILING"},
        "starting",
        "it is being rolled out",
    ),
    "not up in time": (
        {
            "type": "Ready",
            "state": "CONDITION_FAILED",
            "message": "The container failed to start and listen on the port defined by PORT=8000.",
        },
        "failed",
        "the server did not come up in time",
    ),
}


@pytest.mark.parametrize("case", SERVICES)
def test_the_service(case: str, cloudrun: Lived, google: GoogleServer) -> None:
    ready, state, words = SERVICES[case]
    answer = {
        "terminalCondition": ready,
        "latestCreatedRevision": "r/s-00002",
        "latestReadyRevision": "r/s-00001",
    }
    google.plant("run.v2", "run.projects.locations.services.get", answer)
    clients = Clients(PROJECT, google.endpoint, timeout_s=0.5, pause=lambda _: None)
    found = line(Look("cloudrun-vllm", cloudrun.alive, clients).report(), "Cloud Run service")
    assert found.state == state
    assert (found.why.text if found.why else "") == words


# The command


@pytest.fixture
def run(
    l4_kueue: Lived,
    google: GoogleServer,
    cluster: KubernetesServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., int]:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{l4_kueue.backend_up}")
    monkeypatch.setattr("time.sleep", lambda _: None)
    where = ["--endpoint", google.endpoint, "--kubeconfig", str(cluster.kubeconfig(tmp_path))]
    return lambda *words: main(["status", "--stack", "l4-kueue", *where, *words])


def test_a_stack_that_works_is_exit_status_0(
    run: Callable[..., int], metrics: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics(lines_of(*METRICS))
    assert run() == 0
    assert "step 2 of 40, loss 2.0000" in " ".join(capsys.readouterr().out.split())


def test_what_needs_somebody_is_exit_status_1_with_the_remedy(
    run: Callable[..., int], cluster: KubernetesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plant(samples.PODS.format(NS), waiting("p", "ImagePullBackOff"), waiting("q", "ImagePullBackOff"))
    assert run() == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 pods: check imageUri and who may read it" in shown


def test_what_cannot_be_looked_at_is_exit_status_2(
    run: Callable[..., int], cluster: KubernetesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fail("/api", REFUSED)
    assert run() == 2
    assert "could not look at /api/v1/nodes: " in capsys.readouterr().out


def test_a_program_reads_the_same(
    run: Callable[..., int],
    cluster: KubernetesServer,
    metrics: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics(lines_of(*METRICS))
    cluster.plant(samples.NODES, samples.node("a"))
    assert run("--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["course"]["last"]["loss"] == 2.0
    assert {each["kind"]: each["health"] for each in said["lines"]} == {"cluster": "good", "nodes": "good"}


def test_the_loss_curve_is_a_picture_that_fetches_nothing(
    run: Callable[..., int], metrics: Callable[..., None], tmp_path: Path
) -> None:
    metrics(lines_of(*METRICS))
    file = tmp_path / "loss.svg"
    assert run("--plot", str(file)) == 0
    text = file.read_text()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "training" in text and "evaluation" in text
    named = [name for each in root.iter() for name in each.attrib]
    assert not [name for name in named if name.endswith(("href", "src"))]
    assert "url(" not in text and "@import" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--plot", "loss.svg"), "the training has not logged a loss yet"),
        (("--plot", "loss.png"), "name a file that ends in .svg"),
        (("--follow", "--json"), "leave --json and --plot out"),
        (("--kubeconfig", "nowhere"), "nowhere is no kubeconfig"),
        (("--kubeconfig", "Makefile"), "Makefile is no kubeconfig"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: tuple[str, ...], said: str, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("operations status: ")
    assert said in error


def test_a_stack_that_is_down_has_no_status(
    run: Callable[..., int],
    l4_kueue: Lived,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{l4_kueue.backend}")
    assert run() == 2
    assert "nothing of stack l4-kueue is up; pulumi up" in capsys.readouterr().err


def test_follow_shows_one_look_after_the_other_until_it_is_interrupted() -> None:
    reports = iter(
        Report(
            stack="s",
            lines=(Line(kind="job", name="j", state=state, health=health),),
            course=None,
            unseen=(),
        )
        for state, health in (("starting", Health.WAITING), ("running", Health.GOOD), ("failed", Health.BAD))
    )
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    console = Console(record=True, force_terminal=True, width=100)
    assert command.follow(lambda: next(reports), console, pause) == 1
    shown = console.export_text()
    assert "starting" in shown and "failed" in shown
