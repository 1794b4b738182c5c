"""The Ray job that this process is the driver of."""

import json
import os
import signal
import sys
import time

# The variable in which Ray describes its job to a driver: ray/dashboard/modules/job/job_supervisor.py.
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# How many lost workers a run survives. Ray does not count drained nodes.
WORKER_FAILURES = 3
# Seconds within which all workers must start. Ray's 60 are too few: a lost node takes minutes to replace.
WORKER_START_TIMEOUT = 1800
# Ray takes a second or two.
SECONDS_UNTIL_STOPPED = 60


def prepare_environment() -> None:
    """Set the environment variables that Ray Train reads. Call it before Ray starts."""
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(WORKER_START_TIMEOUT))
    # Otherwise Ray shows a worker's output twice: as output and as a log record.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")


def cause(error: Exception) -> str:
    """The error of the first worker that failed, in one line, without the stack traces of the others."""
    failures = getattr(error, "worker_failures", {})
    first = failures[min(failures)] if failures else error
    return " ".join(str(first).split())[-600:]


def stop_own_job(code: int) -> None:
    """Ask Ray to stop this job, whose driver then ends with `code`. Return if there is no job.

    KubeRay does not see exit codes. It gives a failed job a new cluster with GPUs, and a stopped one none. If
    Ray does not stop the job, print why and return.
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
