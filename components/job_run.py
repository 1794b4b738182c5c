"""One run of a Cloud Run job: started, watched, cancelled when need be."""

from contextlib import suppress
from typing import Any, Final

from googleapiclient.errors import HttpError

from cloud.client import CALL_ERRORS, client
from cloud.credentials import find_credentials
from components.clock import Clock, Interrupted
from components.once import OnceError

_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 10.0
# Some minutes without a network, or without the API: each wait is twice as long as the one before.
_RETRIES: Final = 8
_RUNNING: Final = ("EXECUTION_RUNNING", "EXECUTION_PENDING")


def run(job: str, endpoint: str | None, clock: Clock) -> str:
    """Runs a job, and waits for the end.

    Args:
        job: `projects/P/locations/L/jobs/J`.
        endpoint: Address of a server that answers in Google's place, None for Google.

    Returns:
        The name of the execution, which has succeeded.

    Raises:
        OnceError: When it has not. One that is still running is cancelled; where that fails too, the next
            `up` does it.
    """
    try:
        host = endpoint and endpoint.removesuffix("v2/")
        api = client("run.v2", find_credentials(endpoint), _TIMEOUT_S, host)
        jobs = api.projects().locations().jobs()
        _end_earlier(jobs, job, clock)
        # Sent once: an execution of which the answer was lost is ended by the next `up`.
        started = jobs.run(name=job, body={}).execute()["metadata"]
    except (Interrupted, *CALL_ERRORS) as error:
        raise OnceError(f"{job} was not run: {_reason(error)}") from None
    name, log = started["name"], f"log {started.get('logUri')}"
    print(f"execution {_short(name)} started, {log}", flush=True)
    try:
        completed = _completed(jobs, name, clock)
    except (Interrupted, *CALL_ERRORS) as error:
        with suppress(*CALL_ERRORS):
            jobs.executions().cancel(name=name, body={}).execute()
        raise OnceError(f"execution {_short(name)} is given up: {_reason(error)}; {log}") from None
    if completed.get("state") != "CONDITION_SUCCEEDED":
        why = completed.get("message", "Cloud Run does not say why")
        raise OnceError(
            f"execution {_short(name)} has failed: {why}\n  {log}\n  `pulumi up` runs the job again"
        )
    return name


def _end_earlier(jobs: Any, job: str, clock: Clock) -> None:
    """One is left where an `up` was killed; two at a time would write one run."""
    newest = jobs.get(name=job).execute(num_retries=_RETRIES).get("latestCreatedExecution", {})
    if newest.get("completionStatus") in _RUNNING:
        name = f"{job}/executions/{_short(newest['name'])}"
        print(f"execution {_short(name)} is still running and is ended first", flush=True)
        jobs.executions().cancel(name=name, body={}).execute()
        _completed(jobs, name, clock)


def _completed(jobs: Any, name: str, clock: Clock) -> dict[str, Any]:
    """The condition `Completed` of an execution once it has ended."""
    while True:
        execution = jobs.executions().get(name=name).execute(num_retries=_RETRIES)
        if "completionTime" in execution:
            return next((each for each in execution.get("conditions", ()) if each["type"] == "Completed"), {})
        clock.wait(_POLL_S)


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _reason(error: Exception) -> str:
    """Without the address of the call around it."""
    return error.reason if isinstance(error, HttpError) else str(error)
