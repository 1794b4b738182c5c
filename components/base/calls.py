"""Calls of Google's APIs from a dynamic provider, with retries for as long as a retry can help."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from googleapiclient.errors import HttpError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from cloud.client import CALL_ERRORS, client, is_on_the_way
from cloud.credentials import CredentialSettings, find_credentials
from cloud.discovery import discovery
from components.base.clock import Clock
from components.base.once import OnceError

_TIMEOUT_S: Final = 30.0
# 2, 4, 8 and 16 seconds, then always 30.
_BACKOFF: Final = wait_exponential(multiplier=2, max=30)
# Seconds between two looks at a running operation. Simple failures come early, so the pause starts short.
_FIRST_LOOK_S: Final = 0.5
_POLL_S: Final = 5.0


@dataclass(frozen=True)
class RetryLimit:
    """How long a retry can help against an error.

    Args:
        timeout_s: Seconds since the first attempt. 0 means no retry.
        advice: End of the error message, for when retrying has not helped.
    """

    timeout_s: float
    advice: str = ""


NO_RETRY: Final = RetryLimit(0.0)
OUTAGE: Final = RetryLimit(
    300.0, "; tried for 5 minutes; see https://status.cloud.google.com, then run `pulumi up` again"
)
_CREDENTIALS: Final = RetryLimit(0.0, "; run `gcloud auth application-default login`")


class CallError(Exception):
    """A call failed.

    Attributes:
        reason: The cause, without advice.
        timeout_s: Seconds for which retrying can help.
        status: HTTP status of the answer, None without an answer.
    """

    def __init__(self, reason: str, limit: RetryLimit, status: int | None = None) -> None:
        self.reason = reason
        self.timeout_s = limit.timeout_s
        self.status = status
        super().__init__(reason + limit.advice)


class Calls:
    """Sends requests to an API and retries them.

    Args:
        retry_limit: How long to retry an error below 500, by its HTTP status and its message in lower case.
        log: Prints a line for the person who is waiting.
    """

    def __init__(
        self, clock: Clock, retry_limit: Callable[[int, str], RetryLimit], log: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self._retry_limit = retry_limit
        self._log = log

    def send(self, request: Any) -> dict[str, Any]:
        """Sends a request once and returns the answer.

        Raises:
            CallError: If there is no answer, or the answer is an error.
        """
        try:
            return request.execute()
        except CALL_ERRORS as error:
            raise self._call_error(error) from None

    def send_with_retries(self, request: Any) -> dict[str, Any]:
        """Sends a request, with retries, and returns the answer. Raises like `send`."""
        return self.retrying()(self.send, request)

    def poll(self, has_ended: Callable[[dict[str, Any]], bool], request: Any) -> dict[str, Any]:
        """Sends a request again and again until `has_ended` accepts the answer, and returns that answer.

        Raises:
            CallError: If a request goes on failing after its retries.
        """
        pause_s = _FIRST_LOOK_S
        while not has_ended(answer := self.send_with_retries(request)):
            self.clock.wait(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        return answer

    def cancel(self, request: Any) -> str:
        """Sends a request that cancels something, and returns the outcome as the end of a sentence."""
        try:
            self.send(request)
        except CallError as error:
            return f"could not be cancelled ({error.reason})"
        return "has been cancelled"

    def retrying(self, kind: type[CallError] = CallError) -> Retrying:
        """A retrier for calls that raise `kind`. It gives up when the last error's time is over."""
        start = self.clock.now()

        def is_over(state: RetryCallState) -> bool:
            """Whether the next attempt would start after the time for which retrying can help."""
            timeout_s = _last_error(state).timeout_s
            return self.clock.now() - start + state.upcoming_sleep > timeout_s

        def announce(state: RetryCallState) -> None:
            self._log(f"{_last_error(state).reason}; trying again in {state.upcoming_sleep:.0f} s")

        return Retrying(
            retry=retry_if_exception_type(kind),
            wait=_BACKOFF,
            stop=is_over,
            sleep=self.clock.wait,
            before_sleep=announce,
            reraise=True,
        )

    def _call_error(self, error: Exception) -> CallError:
        """The error with Google's reason alone: the library's text has the request's address around it."""
        if isinstance(error, HttpError):
            reason = error.reason or f"HTTP {error.status_code}"
            limit = self._limit_of_status(error.status_code, reason)
            return CallError(reason, limit, error.status_code)
        if isinstance(error, GoogleAuthError) and not is_on_the_way(error):
            return CallError(str(error), _CREDENTIALS)
        return CallError("Google cannot be reached", OUTAGE)

    def _limit_of_status(self, status: int, reason: str) -> RetryLimit:
        if status >= 500:
            return OUTAGE
        if status == 401:
            return _CREDENTIALS
        return self._retry_limit(status, reason.lower())


def _last_error(state: RetryCallState) -> CallError:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, CallError)
    return error


def google_api(api: str, endpoint: str | None, project: str, credentials: CredentialSettings) -> Any:
    """The client of an API such as `run.v2`.

    Args:
        endpoint: Address of a server that answers instead of Google, `.../v2/`. None means Google. It is the
            value of the provider's setting such as `gcp:cloudRunV2CustomEndpoint`.
        project: See `find_credentials`.

    Raises:
        OnceError: If there are no usable credentials.
    """
    try:
        login = find_credentials(endpoint, project, credentials)
    except DefaultCredentialsError as error:
        raise OnceError(str(error)) from None
    # The client library appends the version itself, unless the API's description has it in `servicePath`.
    has_path = discovery(api).document["servicePath"]
    host = endpoint and (endpoint if has_path else endpoint.removesuffix(f"{api.partition('.')[2]}/"))
    return client(api, login, _TIMEOUT_S, host)
