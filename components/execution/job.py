"""Runs a Cloud Run job once: starts it, watches it, and cancels it if `pulumi up` ends first."""

from typing import Any, Final

from cloud.credentials import CredentialSettings
from components.base.calls import NO_RETRY, OUTAGE, CallError, Calls, RetryLimit, google_api
from components.base.clock import Clock, Interrupted
from components.base.once import OnceError

_RUNNING: Final = ("EXECUTION_RUNNING", "EXECUTION_PENDING")


def run(job: str, endpoint: str | None, credentials: CredentialSettings, clock: Clock) -> str:
    """Runs a job and waits for its end.

    Args:
        job: `projects/P/locations/L/jobs/J`.
        endpoint: See `google_api`.

    Returns:
        The name of the successful execution.

    Raises:
        OnceError: If the execution did not succeed. An execution that is still running is cancelled. If that
            fails too, the next `pulumi up` cancels it.
    """
    project = job.split("/")[1]
    jobs = google_api("run.v2", endpoint, project, credentials).projects().locations().jobs()
    executions, calls = jobs.executions(), Calls(clock, _retry_limit, _log)
    try:
        newest = calls.send_with_retries(jobs.get(name=job)).get("latestCreatedExecution", {})
        if newest.get("completionStatus") in _RUNNING:
            # An `up` that was killed left it running. Two executions would write to the same run.
            _log(f"execution {_short(newest['name'])} is still running and is ended first")
            earlier = f"{job}/executions/{_short(newest['name'])}"
            calls.send(executions.cancel(name=earlier, body={}))
            calls.poll(_has_ended, executions.get(name=earlier))
        # Sent only once. If the answer gets lost, the next `up` ends the execution.
        operation = calls.send(jobs.run(name=job, body={}))["metadata"]
    except (Interrupted, CallError) as error:
        raise OnceError(f"{job} was not run: {error}") from None
    name, log = operation["name"], f"log {operation.get('logUri')}"
    title = f"execution {_short(name)}"
    _log(f"{title} started, {log}")
    try:
        execution = calls.poll(_has_ended, executions.get(name=name))
    except (Interrupted, CallError) as error:
        outcome = calls.cancel(executions.cancel(name=name, body={}))
        raise OnceError(f"{title} is given up: {error}; it {outcome}; {log}") from None
    conditions = {condition["type"]: condition for condition in execution.get("conditions", ())}
    completed = conditions.get("Completed", {})
    if completed.get("state") != "CONDITION_SUCCEEDED":
        reason = completed.get("message", "Cloud Run does not say why")
        raise OnceError(f"{title} has failed: {reason}\n  {log}\n  `pulumi up` runs the job again")
    return name


def _retry_limit(status: int, _reason: str) -> RetryLimit:
    return OUTAGE if status == 429 else NO_RETRY


def _has_ended(execution: dict[str, Any]) -> bool:
    return "completionTime" in execution


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _log(line: str) -> None:
    """Prints a line. The engine shows it to the user."""
    print(line, flush=True)
