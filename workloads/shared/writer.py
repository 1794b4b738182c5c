"""Only the newest start may write a run. A run ends when its loss or gradient is not a number."""

import json
import socket
from datetime import UTC, datetime
from uuid import uuid4

from shared.errors import InputError, PassingError, visible
from shared.exit_codes import Exit
from shared.files import TextFiles, read_json
from shared.remembered import submission

ATTEMPT = "attempt.json"
NOT_FINITE = "not-finite.json"


class Writer:
    """The right of this process to publish in a run's directory. It ends when a newer start begins."""

    def __init__(self, files: TextFiles, run: str):
        self._files, self._run = files, run
        self._attempt: dict[str, str] = {}

    def begin(self) -> None:
        """Make this process the run's writer, in place of an earlier one that may still run somewhere."""
        self._attempt = {
            "attempt": uuid4().hex,
            "submission": submission(),
            "host": socket.gethostname(),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._files.write_text(ATTEMPT, json.dumps(self._attempt))

    def replaced(self) -> BaseException | None:
        """The error to raise when a newer start has become the run's writer, else None.

        The newer start may be a try of the same submission, which runs in place of this one. Then this one
        ends as interrupted, which Kubernetes ignores. Bad input would end the Job, and the new pod with it.
        """
        if not self._attempt:
            return None
        newest, own_attempt = read_json(self._files, ATTEMPT, texts=self._attempt), self._attempt["attempt"]
        if newest.get("attempt", own_attempt) == own_attempt:
            return None
        newest = dict.fromkeys(self._attempt, "") | newest
        reason = (
            f"run {self._run} goes on at {newest['host']}, which started it at {newest['started_at']}: "
            "this start publishes nothing more"
        )
        if newest["submission"] != self._attempt["submission"]:
            return InputError(reason)
        print(visible(reason), flush=True)
        return SystemExit(Exit.INTERRUPTED)

    def check(self) -> None:
        """Raise unless this process is still the writer. Called before anything is published."""
        if end := self.replaced():
            raise end


def not_finite(files: TextFiles, step: int, kept: str | None, rate: str) -> InputError | PassingError:
    """The error to raise when loss or gradient is not finite at `step`. A second time at this step is final.

    Args:
        files: Where the step is recorded.
        step: The step, counted from 1.
        kept: The newest checkpoint.
        rate: The name of the learning rate in a recipe.
    """
    again = read_json(files, NOT_FINITE).get("step") == step
    files.write_text(NOT_FINITE, json.dumps({"step": step}))
    problem = f"loss or gradient is not finite at step {step}"
    newest = f"{kept} is kept" if kept else "no checkpoint had been saved"
    if again:
        return InputError(
            f"{problem}, for the second time with the same rows; {newest}: lower {rate} or "
            "look at the rows, with a --run of its own"
        )
    return PassingError(f"{problem}; {newest}, and the next start goes on from there")
