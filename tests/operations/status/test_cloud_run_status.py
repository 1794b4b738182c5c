"""The executions of the Cloud Run job, and the service."""

from typing import Any

import pytest

from operations.clients import Clients
from operations.status.look import Look
from tests.operations.conftest import Lived
from tests.operations.google_server import GoogleServer
from tests.operations.kubernetes_server import Object
from tests.operations.project import PROJECT
from tests.operations.status.reading import line
from tests.operations.status.samples import LICENCE


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
    clients = Clients(PROJECT, google.address, timeout_s=0.5)
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
    clients = Clients(PROJECT, google.address, timeout_s=0.5)
    found = line(Look("cloudrun-vllm", cloudrun.alive, clients).report(), "Cloud Run service")
    assert found.state == state
    assert (found.why.text if found.why else "") == words
