"""Calls a server again when it does not answer, with growing waits and a line of log for each."""

import sys

from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_exponential
from tenacity.retry import retry_base

from engine.text import visible


def retrying(retry: retry_base, attempts: int = 3) -> Retrying:
    """Calls the function that it is given; the last attempt's answer or error is the function's own.

    Args:
        retry: For which errors and answers another attempt may help.
        attempts: How many there are at most: 1, 4, 16 seconds and so on lie between them.
    """
    return Retrying(
        retry=retry,
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(exp_base=4),
        before_sleep=_log,
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )


def _log(state: RetryCallState) -> None:
    """Standard output is the command's result alone."""
    assert state.outcome
    what = state.outcome.exception() or state.outcome.result()
    text = " ".join(str(what).split()) or type(what).__name__
    attempt = f"attempt {state.attempt_number + 1} in {state.upcoming_sleep:.0f} s"
    print(f"{visible(text)}; {attempt}", file=sys.stderr)
