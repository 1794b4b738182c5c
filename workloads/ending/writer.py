"""Who may write a run: its newest start. And what ends a run whose loss or gradient is no number."""

import json
import socket
from datetime import UTC, datetime
from uuid import uuid4

from ending.errors import InputError, PassingError
from ending.exit_codes import Exit
from ending.files import TextFiles, read_json
from ending.remembered import submission

ATTEMPT = "attempt.json"
NOT_FINITE = "not-finite.json"


class Writer:
    """This process's right to publish in a run's directory, from `begin` until a newer start begins."""

    def __init__(self, files: TextFiles, run: str):
        self._files, self._run = files, run
        self._attempt: dict[str, str] = {}

    def begin(self) -> None:
        """Make this process the run's one writer, in place of an earlier one that may go on somewhere."""
        self._attempt = {
            "attempt": uuid4().hex,
            "submission": submission(),
            "host": socket.gethostname(),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._files.write_text(ATTEMPT, json.dumps(self._attempt))

    def replaced(self) -> BaseException | None:
        """What to raise when a newer start has become the run's writer; no other start follows.

        A try of the same submission has been started already in place of this one; Kubernetes then ignores
        the exit code of an interrupted pod, where that of bad input would end the Job, with the new pod.
        """
        newest = read_json(self._files, ATTEMPT)
        if not self._attempt or newest.get("attempt", self._attempt["attempt"]) == self._attempt["attempt"]:
            return None
        reason = (
            f"run {self._run} goes on at {newest['host']}, which started it at {newest['started_at']}: "
            "this start publishes nothing more"
        )
        if newest["submission"] != self._attempt["submission"]:
            return InputError(reason)
        print(reason, flush=True)
        return SystemExit(Exit.INTERRUPTED)

    def check(self) -> None:
        """Raise unless this process is still the writer; called before anything is published."""
        if end := self.replaced():
            raise end


def not_finite(files: TextFiles, step: int, kept: str | None, rate: str) -> InputError | PassingError:
    """What to raise when loss or gradient is not finite at `step`; recorded, since a second time is final.

    `kept` is the newest checkpoint, and `rate` what a recipe calls its learning rate.
    """
    record = json.dumps({"step": step})
    again = files.read_text(NOT_FINITE) == record
    files.write_text(NOT_FINITE, record)
    what = f"loss or gradient is not finite at step {step}"
    good = f"{kept} is kept" if kept else "no checkpoint had been saved"
    if again:
        return InputError(
            f"{what}, for the second time with the same rows; {good}: lower {rate} or "
            "look at the rows, with a --run of its own"
        )
    return PassingError(f"{what}; {good}, and the next start goes on from there")
