"""Calls of Google's APIs from a dynamic provider, with retries for as long as a retry can help."""

from collections.abc import Callable
from typing import Any, Final

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from googleapiclient.errors import HttpError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from cloud.client import CALL_ERRORS, client, is_on_the_way
from cloud.credentials import CredentialSettings, find_credentials
from components.clock import Clock
from components.once import OnceError

_TIMEOUT_S: Final = 30.0
# 2, 4, 8 and 16 seconds, then always 30.
_BACKOFF: Final = wait_exponential(multiplier=2, max=30)
# Seconds between two looks at a running operation. Simple failures come early, so the pause starts short.
_FIRST_LOOK_S: Final = 0.5
_POLL_S: Final = 5.0

# Seconds for which retrying can help, and the advice for the reader of the error when it has not helped.
Patience = tuple[float, str]
NO_PATIENCE: Final[Patience] = 0.0, ""
OUTAGE: Final[Patience] = (
    300.0,
    "; tried for 5 minutes; see https://status.cloud.google.com, then run `pulumi up` again",
)
_CREDENTIALS: Final[Patience] = 0.0, "; run `gcloud auth application-default login`"


class Trouble(Exception):
    """A call failed.

    Attributes:
        reason: The cause, without advice.
        timeout_s: Seconds for which retrying can help.
    """

    def __init__(self, reason: str, patience: Patience) -> None:
        self.reason = reason
        self.timeout_s, remedy = patience
        super().__init__(reason + remedy)


class Calls:
    """Sends requests to an API and retries them.

    Args:
        refused: How long to retry an error below 500, from its HTTP status and its message in lower case.
        say: Prints a line for the person who is waiting.
    """

    def __init__(
        self, clock: Clock, refused: Callable[[int, str], Patience], say: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self._refused = refused
        self._say = say

    def once(self, request: Any) -> dict[str, Any]:
        """Sends a request once and returns the answer.

        Raises:
            Trouble: If there is no answer, or the answer is an error.
        """
        try:
            return request.execute()
        except CALL_ERRORS as error:
            raise self._trouble(error) from None

    def patiently(self, request: Any) -> dict[str, Any]:
        """Sends a request, with retries, and returns the answer. Raises like `once`."""
        return self.retrying()(self.once, request)

    def until(self, ended: Callable[[dict[str, Any]], bool], request: Any) -> dict[str, Any]:
        """Sends a request again and again until `ended` accepts the answer, and returns that answer.

        Raises:
            Trouble: If a request goes on failing after its retries.
        """
        pause_s = _FIRST_LOOK_S
        while not ended(answer := self.patiently(request)):
            self.clock.wait(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        return answer

    def ending(self, request: Any) -> str:
        """Sends a request that cancels something, and returns the outcome as the end of a sentence."""
        try:
            self.once(request)
        except Trouble as trouble:
            return f"could not be cancelled ({trouble.reason})"
        return "has been cancelled"

    def retrying(self, kind: type[Trouble] = Trouble) -> Retrying:
        """A retrier for calls that raise `kind`. It gives up when the last error's time is over."""
        began = self.clock.now()

        def is_hopeless(state: RetryCallState) -> bool:
            """Whether the next attempt would start after the time for which retrying can help."""
            timeout_s = _trouble_of(state).timeout_s
            return self.clock.now() - began + state.upcoming_sleep > timeout_s

        def tell(state: RetryCallState) -> None:
            self._say(f"{_trouble_of(state).reason}; trying again in {state.upcoming_sleep:.0f} s")

        return Retrying(
            retry=retry_if_exception_type(kind),
            wait=_BACKOFF,
            stop=is_hopeless,
            sleep=self.clock.wait,
            before_sleep=tell,
            reraise=True,
        )

    def _trouble(self, error: Exception) -> Trouble:
        """The error with Google's reason alone: the library's text has the request's address around it."""
        if isinstance(error, HttpError):
            reason, patience = error.reason or f"HTTP {error.status_code}", OUTAGE
            if error.status_code < 500:
                refused = self._refused(error.status_code, reason.lower())
                patience = _CREDENTIALS if error.status_code == 401 else refused
            return Trouble(reason, patience)
        if isinstance(error, GoogleAuthError) and not is_on_the_way(error):
            return Trouble(str(error), _CREDENTIALS)
        return Trouble("Google cannot be reached", OUTAGE)


def _trouble_of(state: RetryCallState) -> Trouble:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, Trouble)
    return error


def google_api(api: str, endpoint: str | None, project: str, credentials: CredentialSettings) -> Any:
    """The client of an API such as `run.v2`.

    Args:
        endpoint: Address of a server that answers instead of Google, `.../v2/`. None means Google.
        project: See `find_credentials`.

    Raises:
        OnceError: If there are no usable credentials.
    """
    try:
        found = find_credentials(endpoint, project, credentials)
    except DefaultCredentialsError as error:
        raise OnceError(str(error)) from None
    # The client library appends the version itself.
    host = endpoint and endpoint.removesuffix(f"{api.partition('.')[2]}/")
    return client(api, found, _TIMEOUT_S, host)
