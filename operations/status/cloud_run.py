"""Executions of Cloud Run jobs, and services."""

from collections.abc import Mapping
from typing import Any, Final

from operations.google.clients import Clients, last
from operations.status import words
from operations.status.report import Line, Why, line

_PENDING: Final = ("CONDITION_PENDING", "CONDITION_RECONCILING", "STATE_UNSPECIFIED", None)
_SUCCEEDED: Final = "CONDITION_SUCCEEDED"
_FAILED: Final = "CONDITION_FAILED"
# Lines of an execution's log to read: a traceback and its last line are among them.
_LOG_LINES: Final = 50


def job(clients: Clients, name: str) -> Line:
    """The newest execution of a job, `projects/P/locations/L/jobs/J`.

    Raises:
        CallError: When it cannot be read.
    """
    executions = clients.every("run.v2", "projects.locations.jobs.executions.list", parent=name)
    if not executions:
        return line("Cloud Run job", last(name), "never run", waits=True)
    newest = max(executions, key=lambda execution: execution.get("createTime", ""))
    conditions = newest.get("conditions") or ()
    completed = next((condition for condition in conditions if condition.get("type") == "Completed"), {})
    counted = ("succeeded", "running", "retried")
    done, running, retried = (newest.get(f"{what}Count", 0) for what in counted)
    details = (
        f"{done} of {newest.get('taskCount', 1)} tasks done",
        f"{running} running" if running else "",
        f"{retried} tries again" if retried else "",
    )
    state, why = "running", None
    if completed.get("state") == _SUCCEEDED:
        state = "complete"
    elif completed.get("state") == _FAILED:
        state, why = "failed", _why_failed(clients, newest, completed)
    elif not running:
        waiting = [condition for condition in conditions if condition.get("state") != _SUCCEEDED]
        delayed = any("DELAYED_START" in str(condition.get("executionReason") or "") for condition in waiting)
        free = "Cloud Run has no such machine free; it starts when there is one"
        why = words.explain(
            *(str(condition.get("message") or "") for condition in waiting),
            otherwise=free if delayed else "Cloud Run is starting it",
            bad=False,
        )
        state = "pending"
    return line("Cloud Run execution", last(newest["name"]), state, *details, why=why)


def service(clients: Clients, name: str) -> Line:
    """A service, `projects/P/locations/L/services/S`.

    Raises:
        CallError: When it cannot be read.
    """
    described = clients.call("run.v2", "projects.locations.services.get", name=name)
    ready = described.get("terminalCondition") or {}
    newest, serving = last(described.get("latestCreatedRevision")), last(described.get("latestReadyRevision"))
    if ready.get("state") == _SUCCEEDED:
        return line("Cloud Run service", last(name), "ready", serving)
    waiting = ready.get("state") in _PENDING
    why = words.explain(
        *(str(ready.get(key) or "") for key in ("message", "revisionReason", "reason")),
        otherwise="it is being rolled out" if waiting else "{}",
        bad=not waiting,
    )
    detail = f"{newest} is not ready" + (f", {serving} serves" if serving else "")
    return line("Cloud Run service", last(name), "starting" if waiting else "failed", detail, why=why)


def _why_failed(clients: Clients, execution: Mapping[str, Any], completed: Mapping[str, Any]) -> Why:
    """The log is searched for known words and never shown.

    Raises:
        CallError: When the log cannot be read.
    """
    message = str(completed.get("message") or "")
    known = words.plain(message, str(completed.get("reason") or "")) or words.plain(*_log(clients, execution))
    if known:
        return known
    if completed.get("executionReason") == "CANCELLED":
        return Why(text="it was cancelled", remedy="pulumi up runs it again")
    return Why(text=words.first_sentence(message), remedy="the stack's output readTraining shows its log")


def _log(clients: Clients, execution: Mapping[str, Any]) -> list[str]:
    parts = str(execution["name"]).split("/")
    labels = f'labels."run.googleapis.com/execution_name"="{parts[-1]}"'
    body = {
        "resourceNames": [f"projects/{parts[1]}"],
        "filter": f'resource.type="cloud_run_job" AND {labels}',
        "orderBy": "timestamp desc",
        "pageSize": _LOG_LINES,
    }
    answer = clients.call("logging.v2", "entries.list", body=body)
    return [str(entry.get("textPayload") or "") for entry in answer.get("entries") or ()]
