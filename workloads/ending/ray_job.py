"""The Ray job that this process is the driver of."""

import json
import os
import signal
import sys
import time

# Where Ray tells a driver that was submitted as a job about it: ray/dashboard/modules/job/job_supervisor.py.
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# How many lost workers a run survives. Drained nodes are not counted.
WORKER_FAILURES = 3
# Seconds within which all workers must start, not Ray's 60: replacing a lost node takes many minutes.
WORKER_START_TIMEOUT = 1800
# Ray needs a second or two.
SECONDS_UNTIL_STOPPED = 60


def prepare_environment() -> None:
    """Set, before Ray starts, what Ray Train reads from the environment."""
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(WORKER_START_TIMEOUT))
    # Otherwise Ray shows a worker's output twice: as output and as a log record.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")


def cause(error: Exception) -> str:
    """The error of the first worker that failed, in one line, without the stack traces of the others."""
    failures = getattr(error, "worker_failures", {})
    first = failures[min(failures)] if failures else error
    return " ".join(str(first).split())[-600:]


def stop_own_job(code: int) -> None:
    """Ask Ray to stop this job, whose driver ends with `code`; returns if there is none, or Ray does not.

    KubeRay sees no exit codes: a job that failed gets a new cluster, with GPUs, a stopped one gets none.
    """
    job = json.loads(os.environ.get(JOB_CONFIG, "{}")).get("metadata", {}).get("job_submission_id")
    if job is None:
        return
    from ray.job_submission import JobSubmissionClient

    # Ray's own handler would print a stack trace below the error.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
    try:
        JobSubmissionClient().stop_job(job)
        time.sleep(SECONDS_UNTIL_STOPPED)
    except Exception as error:
        print(f"Ray does not stop the job: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
