"""Retries calls of a server, with growing pauses and a line of log for each retry."""

import sys

from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_exponential
from tenacity.retry import retry_base

from engine.text import visible


def retrying(retry: retry_base, attempts: int = 3) -> Retrying:
    """Returns a retrying caller of functions. It returns or raises the result of the last attempt.

    Args:
        retry: The errors and answers for which another attempt may help.
        attempts: The largest number of attempts. The pauses between them are 1, 4, 16 seconds and so on.
    """
    return Retrying(
        retry=retry,
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(exp_base=4),
        before_sleep=_log,
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )


def _log(state: RetryCallState) -> None:
    """Logs to standard error, because standard output has only the command's result."""
    assert state.outcome
    what = state.outcome.exception() or state.outcome.result()
    text = " ".join(str(what).split()) or type(what).__name__
    attempt = f"attempt {state.attempt_number + 1} in {state.upcoming_sleep:.0f} s"
    print(f"{visible(text)}; {attempt}", file=sys.stderr)
