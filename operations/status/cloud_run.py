"""Executions of Cloud Run jobs, and services."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from operations.clients import Clients
from operations.leftovers.thing import last
from operations.status import words
from operations.status.report import Health, Line, Why

_PENDING: Final = ("CONDITION_PENDING", "CONDITION_RECONCILING", "STATE_UNSPECIFIED")
_SUCCEEDED: Final = "CONDITION_SUCCEEDED"
_FAILED: Final = "CONDITION_FAILED"
# Of an execution's log: where a traceback and its last line are.
_LOG_LINES: Final = 50


def job(clients: Clients, name: str) -> Iterator[Line]:
    """The newest execution of a job.

    Args:
        clients: Google's APIs.
        name: `projects/P/locations/L/jobs/J`.

    Raises:
        CallError: When it cannot be read.
    """
    found = clients.every("run.v2", "projects.locations.jobs.executions.list", parent=name)
    if not found:
        yield Line(kind="Cloud Run job", name=last(name), state="never run", health=Health.WAITING)
        return
    newest = max(found, key=lambda each: each.get("createTime", ""))
    completed = _condition(newest.get("conditions") or (), "Completed")
    counts = (newest.get(f"{what}Count", 0) for what in ("succeeded", "running", "failed", "retried"))
    done, running, failed, retried = counts
    tasks = f"{done} of {newest.get('taskCount', 1)} tasks done"
    detail = [tasks, f"{running} running" if running else "", f"{retried} tries again" if retried else ""]
    state, health, why = "running", Health.GOOD, None
    if completed.get("state") == _SUCCEEDED:
        state = "complete"
    elif completed.get("state") == _FAILED:
        state, health = "failed", Health.BAD
        why = _why_failed(clients, newest, completed, failed)
    elif not running:
        state, health = "pending", Health.WAITING
        why = _why_pending(newest.get("conditions") or ())
        health = Health.BAD if why.bad else Health.WAITING
    yield Line(
        kind="Cloud Run execution",
        name=last(newest["name"]),
        state=state,
        detail=", ".join(filter(None, detail)),
        health=health,
        why=why,
    )


def service(clients: Clients, name: str) -> Iterator[Line]:
    """A service.

    Args:
        clients: Google's APIs.
        name: `projects/P/locations/L/services/S`.

    Raises:
        CallError: When it cannot be read.
    """
    found = clients.call("run.v2", "projects.locations.services.get", name=name)
    ready = found.get("terminalCondition") or {}
    newest, serving = last(found.get("latestCreatedRevision")), last(found.get("latestReadyRevision"))
    if ready.get("state") == _SUCCEEDED:
        yield Line(kind="Cloud Run service", name=last(name), state="ready", detail=serving)
        return
    waiting = ready.get("state") in (*_PENDING, None)
    message = str(ready.get("message") or "")
    why = words.plain(message, str(ready.get("revisionReason") or ""), str(ready.get("reason") or ""))
    if not why:
        said = words.first_sentence([message])
        why = Why(text="it is being rolled out" if waiting else said, bad=not waiting)
    detail = f"{newest} is not ready, {serving} serves" if serving else f"{newest} is not ready"
    yield Line(
        kind="Cloud Run service",
        name=last(name),
        state="starting" if waiting else "failed",
        detail=detail,
        health=Health.BAD if why.bad else Health.WAITING,
        why=why,
    )


def _why_failed(
    clients: Clients, execution: Mapping[str, Any], completed: Mapping[str, Any], failed: int
) -> Why:
    """Its log is searched for known words and never shown.

    Raises:
        CallError: When the log cannot be read.
    """
    message = str(completed.get("message") or "")
    found = words.plain(message, str(completed.get("reason") or "")) or words.plain(*_log(clients, execution))
    if found:
        return found
    if completed.get("executionReason") == "CANCELLED":
        return Why(text="it was cancelled", remedy="pulumi up runs it again once something has changed")
    return Why(text=words.first_sentence([message]), remedy="the stack's output readTraining shows its log")


def _why_pending(conditions: Sequence[Mapping[str, Any]]) -> Why:
    texts = [str(each.get("message") or "") for each in conditions if each.get("state") != _SUCCEEDED]
    found = words.plain(*texts)
    if found:
        return found
    if any("DELAYED_START" in str(each.get("executionReason") or "") for each in conditions):
        return Why(text="Cloud Run has no such machine free; it starts when there is one", bad=False)
    return Why(text="Cloud Run is starting it", bad=False)


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


def _condition(conditions: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next((each for each in conditions if each.get("type") == name), {})
