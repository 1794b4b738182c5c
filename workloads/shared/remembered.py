"""Bad input, remembered in a run's directory: other tries of the same submission do not look again.

A new submission looks again, because the cause may be gone: a licence was accepted, a token changed.
"""

import json
import os
from datetime import UTC, datetime
from uuid import uuid4

from shared.exit_codes import Exit
from shared.files import TextFiles, read_json

FILE = "ended.json"
# A variable that a Job's manifest sets to the Job's uid. Processes that a command starts inherit it.
SUBMISSION = "RUN_SUBMISSION"


def submission() -> str:
    """An id that all tries of one Job, of one execution on Cloud Run, or of one command have in common.

    https://docs.cloud.google.com/run/docs/container-contract#jobs-env-vars
    """
    return os.environ.setdefault(SUBMISSION, os.environ.get("CLOUD_RUN_EXECUTION") or uuid4().hex)


def remember(files: TextFiles, reason: str) -> None:
    """Record that this submission cannot succeed. `reason` says what to change."""
    ended_at = datetime.now(UTC).isoformat(timespec="seconds")
    end = {"reason": reason, "exit_code": Exit.BAD_INPUT, "submission": submission(), "ended_at": ended_at}
    files.write_text(FILE, json.dumps(end, indent=2))


def remembered(files: TextFiles) -> str | None:
    """The reason that an earlier try of this submission recorded, if it ended for bad input."""
    end = read_json(files, FILE, texts=("reason", "submission"))
    return end.get("reason", "") if end.get("submission") == submission() else None
