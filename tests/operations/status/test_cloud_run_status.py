"""The executions of the Cloud Run job, and the service."""

import pytest

from operations.google.clients import Clients
from operations.status.look import look
from tests.operations.google_server import GoogleServer
from tests.operations.kubernetes_server import Object
from tests.operations.past_stack import PastStack
from tests.operations.project import PROJECT
from tests.operations.status.samples import GATED, LICENCE, QUOTA, line, why

EXECUTIONS = f"projects/{PROJECT}/locations/us-central1/jobs/j/executions"
FAILED = "Task j-abc-task0 failed with message: The container exited with an error."


@pytest.mark.parametrize(
    ("completed", "fields", "log", "state", "words"),
    [
        ({"state": "RECONCILING"}, {"runningCount": 1}, "", "running", ""),
        ({"state": "SUCCEEDED"}, {"succeededCount": 1}, "", "complete", ""),
        ({"state": "PENDING", "message": "Quota exceeded for GPUs per region."}, {}, "", "pending", QUOTA),
        (
            {"state": "PENDING", "executionReason": "DELAYED_START_PENDING"},
            {},
            "",
            "pending",
            "Cloud Run has no such machine free; it starts when there is one",
        ),
        ({"state": "FAILED", "message": FAILED}, {"failedCount": 1}, LICENCE, "failed", GATED),
        (
            {"state": "FAILED", "message": "The configured timeout was reached."},
            {"failedCount": 1},
            "nothing known",
            "failed",
            "The configured timeout was reached",
        ),
    ],
)
def test_the_newest_execution_of_the_job(
    completed: Object,
    fields: Object,
    log: str,
    state: str,
    words: str,
    neutral_run: PastStack,
    google: GoogleServer,
    clients: Clients,
) -> None:
    conditions = [{**completed, "type": "Completed", "state": f"CONDITION_{completed['state']}"}]
    newest = {
        "name": f"{EXECUTIONS}/j-abc",
        "createTime": "2026-11-21T09:00:00Z",
        "conditions": conditions,
        **fields,
    }
    older = {"name": f"{EXECUTIONS}/j-old", "createTime": "2026-11-20T09:00:00Z"}
    google.plant("run.v2", "run.projects.locations.jobs.executions.list", {"executions": [older, newest]})
    google.plant("logging.v2", "logging.entries.list", {"entries": [{"textPayload": log}]})
    report = look("neutral-run", neutral_run.alive, clients)
    shown = line(report, "Cloud Run execution")
    assert (shown.name, shown.state, why(report, shown.kind)) == ("j-abc", state, words)


NOT_UP = "The container failed to start and listen on the port defined by PORT=8000."


@pytest.mark.parametrize(
    ("ready", "state", "words"),
    [
        ({"state": "CONDITION_SUCCEEDED"}, "ready", ""),
        ({"state": "CONDITION_RECONCILING"}, "starting", "it is being rolled out"),
        ({"state": "CONDITION_FAILED", "message": NOT_UP}, "failed", "the server did not come up in time"),
    ],
)
def test_the_service(
    ready: Object, state: str, words: str, neutral_run: PastStack, google: GoogleServer, clients: Clients
) -> None:
    revisions = {"latestCreatedRevision": "r/s-00002", "latestReadyRevision": "r/s-00001"}
    answer = {"terminalCondition": {"type": "Ready", **ready}, **revisions}
    google.plant("run.v2", "run.projects.locations.services.get", answer)
    report = look("neutral-run", neutral_run.alive, clients)
    shown = line(report, "Cloud Run service")
    assert (shown.state, why(report, shown.kind)) == (state, words)
